"""Runs of a database. Commands are decided here and appended to the log; the process that runs the execution, if it is
another one, notices."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from math import inf

import msgspec

from noetl.client.client import (
    ExplainArgs,
    Items,
    Json,
    NewRun,
    NewView,
    OnProgress,
    ProgressView,
    RunFilter,
    Warn,
    print_warnings,
)
from noetl.client.database import (
    find_run,
    is_owned,
    json_of,
    list_runs,
    local_actor,
    not_owned,
    opened,
    opened_file,
    owned,
    registered,
    top_of,
)
from noetl.client.embedded import Engine, Follower, engine, interruptible, run_to_end
from noetl.clock import SystemClock
from noetl.engine import events as e
from noetl.engine.commands import Cancel, Command, Pause, Resume, Signal
from noetl.engine.state import Execution
from noetl.engine.waits import signal_result
from noetl.errors import Conflict, Interrupted, NoetlError, StoreError, TimedOut, UsageError
from noetl.host.embedded import ALL, FOREIGN_CHANGES_SECONDS, open_below
from noetl.model.event_filter import ALL_EVENTS, EventFilter
from noetl.model.identity import uuid7
from noetl.model.outcome import Failure
from noetl.model.status import ENDED, OPEN, status_phrase
from noetl.runtime.catalog import PlaybookSource
from noetl.runtime.committer import CommandResult
from noetl.runtime.loaded_playbooks import LoadedPlaybook, LoadedPlaybooks
from noetl.runtime.past import PastReader
from noetl.runtime.report import explained
from noetl.runtime.runtime import Runtime
from noetl.server.execution_lists import listed_items
from noetl.settings import retention, settings
from noetl.store.sqlite import Owner, SqliteStore
from noetl.store.store import Store, Summary
from noetl.timestamps import rfc3339

PRUNE_BATCH = 100
PRUNED_AFTER_RUN = 20  # how many old runs are removed when a run has ended, so that nobody waits for it

Begin = Callable[[Engine], Awaitable[tuple[Execution, int]]]
"""Returns an execution that can be driven, and the seq of its last old event."""


class LocalRuns:
    """Code that `noetl run` does not need is imported on first use."""

    in_process = True

    def __init__(self, db: str | None, warn: Warn) -> None:
        self.db, self.warn = db, warn

    def list(self, filter: RunFilter, limit: int) -> Items:
        """Newest first. `orphaned` is true for an open run whose process is gone."""
        with opened(self.db) as store:
            summaries = list_runs(store, filter, limit)
            return [
                item | {"orphaned": summary.status not in ENDED and not is_owned(store, summary)}
                for item, summary in zip(_items(store, summaries), summaries, strict=True)
            ]

    def get(self, run: str) -> Json:
        """The run; `error_line` is the line of the playbook with the error, `orphaned` is as in lists."""

        async def get(local: Engine, summary: Summary) -> Json:
            record = local.run(await local.runtime.executions.state(summary.execution_id), summary)
            orphaned = not summary.ended and not is_owned(local.runtime.store, summary)
            return record | {"orphaned": orphaned}

        return self._with_engine(run, get)

    def _with_engine(self, run: str, read: Callable[[Engine, Summary], Awaitable[Json]]) -> Json:
        async def main() -> Json:
            async with engine(store, self.warn) as local:
                return await read(local, summary)

        with opened(self.db) as store:
            summary = find_run(store, run)
            return asyncio.run(main())

    def events(self, run: str, after: int = 0, filter: EventFilter = ALL_EVENTS) -> Iterator[Items]:
        from noetl.runtime.event_pages import all_envelopes  # `noetl run` does not need them
        from noetl.runtime.run_indexes import RunIndexes

        with opened(self.db) as store:
            execution, spans = find_run(store, run).execution_id, None
            if filter.run:
                spans = RunIndexes().of(store, execution, filter.run).spans(filter.item)
            yield from all_envelopes(store, execution, filter, after, spans)

    def item(self, run: str) -> Json:
        """The run as lists have it."""
        with opened(self.db) as store:
            return _items(store, [find_run(store, run)])[0]

    def output(self, run: str, after: int = 0) -> Items:
        with opened(self.db) as store:
            lines = store.output(find_run(store, run).execution_id, after)
        return [
            {"number": number, "task": task, "timestamp": rfc3339(at), "stream": stream, "line": text}
            for number, task, at, stream, text in lines
        ]

    def contents(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents of references; keys without content are left out."""
        with opened(self.db) as store:
            return {key: content for key in keys if (content := store.blob(key)) is not None}

    def export(self, run: str) -> Iterator[bytes]:
        """Everything that is stored of a run, as the parts of a JSON file. A server has only texts of registered
        playbooks."""
        from noetl.runtime.export import exported

        record = self.get(run)
        with opened(self.db) as store:
            yield from exported(store, record, registered_only=False)

    def explain(self, run: str, args: ExplainArgs) -> Json:
        from noetl.runtime.explanations import Explained, ExplanationPart, explain, explain_event, question_about

        def read(past: PastReader, execution: str) -> Explained:
            if args.seq is not None:
                return explain_event(past, execution, args.seq)
            question = question_about(args.step or "", args.run, args.item)
            return explain(past, execution, question, ExplanationPart(args.at, limit=args.limit))

        async def answer(local: Engine, summary: Summary) -> Json:
            result = await local.runtime.past.do(partial(read, execution=summary.execution_id))
            source = local.catalog.source(result.state.digest)
            return json_of(explained(result, args.run, source.display_path, source.places))

        return self._with_engine(run, answer)

    def diff(self, a: str, b: str) -> Json:
        """Compare two runs. `equal` is whether nothing but times, workers and users differs."""
        from noetl.runtime.execution_diff import START, compare

        async def diff(local: Engine, summary: Summary) -> Json:
            first, second = summary.execution_id, find_run(local.runtime.store, b).execution_id
            compared = await local.runtime.past.do(lambda past: compare(past, first, second, START, inf))
            return {"a": first, "b": second} | json_of(compared)

        return self._with_engine(a, diff)

    def replay(self, run: str, source: PlaybookSource | None) -> Json:
        """Fold the log again and compare with the stored state; with a playbook, decide the log again."""
        from noetl.client.replay import replay_stored

        return self._with_engine(run, lambda local, summary: replay_stored(local.runtime, summary.execution_id, source))

    def verify(self, run: str | None, on_progress: OnProgress | None = None) -> Json:
        """Check one run or all: the number of `executions`, and the `violations`."""
        from noetl.runtime.audit import LARGE, Audit, missing_commits, verify_large

        with opened(self.db) as store:
            summaries = [find_run(store, run)] if run is not None else store.summaries(limit=ALL)
            audit, violations = Audit(store), missing_commits(store)
            for number, summary in enumerate(summaries, start=1):
                title = f"run {number:,} of {len(summaries):,}"
                report = on_progress and partial(on_progress, title)
                if store.seq(summary.execution_id) < LARGE:
                    violations += audit.of(summary, report)
                else:
                    violations += verify_large(settings(self.db).db, store, summary, report)
        return {"executions": len(summaries), "violations": msgspec.to_builtins(violations)}

    def start(self, new: NewRun) -> Json:
        """Start a run without waiting for it, which only a server can."""
        raise UsageError("a database does not execute runs by itself: use --server URL")

    def run(self, new: NewRun, view: ProgressView | None, timeout: float | None = None) -> Json:
        """Run to the end; Interrupted after Ctrl-C. TimedOut if a server takes longer than `timeout`."""

        async def begin(local: Engine) -> tuple[Execution, int]:
            if source is not None:
                digest = local.catalog.add(source)
            else:
                digest = registered(store, body["path"], body["version"])
                local.catalog.ensure_playbook(digest)
            await self._install_requirements(local, digest)
            inputs = body["payload"], body["ctx"], local_actor(), body["strict_keys"]
            return await local.embedded.start(execution, digest, *inputs), 0

        body, source = new
        execution = uuid7(time.time(), os.urandom(8))
        with opened_file(self.db, "create" if source else "write") as store, owned(store, execution):
            return asyncio.run(self._run_to_end(store, execution, view, begin, prune=source is not None))

    def preview_fork(self, run: str, new: NewRun) -> Json:
        """The effect of a fork or a retry; nothing is started or stored."""
        from noetl.runtime import history
        from noetl.runtime.fork_preview import preview_fork, preview_retry

        async def preview(local: Engine, summary: Summary) -> Json:
            runtime, execution, edited = local.runtime, summary.execution_id, None
            if source is not None:
                edited = LoadedPlaybook(
                    source.loaded.require(), source.display_path, source.places, source.loaded.inputs
                )
            edit = history.Edit("", body["ctx"], body["payload"], None, body["strict_keys"])
            if "at" in body:
                return json_of(await preview_fork(runtime, execution, body["at"], edit, edited))
            point = history.RetryPoint(body["step"], body["failed_items"])
            return json_of(await preview_retry(runtime, execution, edit, point, edited))

        body, source = new
        return self._with_engine(run, preview)

    def fork(self, run: str, new: NewRun, view: ProgressView | None, on_forked: Callable[[Json], None]) -> Json:
        from noetl.runtime import history

        async def begin(local: Engine) -> tuple[Execution, int]:
            if source is None:
                local.catalog.ensure_playbook(origin.digest)
            digest = local.catalog.add(source) if source is not None else ""
            edit = history.Edit(digest, body["ctx"], body["payload"], local_actor(), body["strict_keys"])
            if "at" in body:
                forked = await history.fork(local.runtime, origin.execution_id, execution, body["at"], edit)
            else:
                point = history.RetryPoint(body["step"], body["failed_items"])
                forked = await history.retry(local.runtime, origin.execution_id, execution, edit, point)
            print_warnings(forked.warnings, self.warn)
            on_forked(msgspec.to_builtins(forked))
            return local.runtime.executions[execution].state, forked.source_seq

        body, source = new
        execution = uuid7(time.time(), os.urandom(8))
        with opened_file(self.db, "write") as store, owned(store, execution):
            origin = find_run(store, run)
            return asyncio.run(self._run_to_end(store, execution, view, begin))

    async def _install_requirements(self, local: Engine, digest: str) -> None:
        """Install the requirements of Python tasks before the run starts, so that progress and errors are seen at
        once."""
        loaded = local.catalog.playbooks.get(digest)
        tasks = [part for step in loaded.playbook.steps for part in step.every_task if part[1].kind == "python"]
        lists = {tuple(task.inputs.get("requirements", ())): place for place, task in reversed(tasks)}
        for requirements, place in lists.items():
            if not requirements:
                continue
            from noetl.tools.python_child.environment import packages_of

            try:
                await packages_of(requirements, loaded.file.folder, lambda line: self.warn(f"noetl: {line}"))
            except Failure as failure:
                error = failure.outcome.error
                mark = loaded.file.places.get(f"{place}/input/{error.details['input']}") if error else None
                at = f"{loaded.file.name}:{mark.line}:{mark.column}: " if mark else ""
                raise NoetlError(f"{at}{failure}") from None

    async def _run_to_end(
        self, store: Store, execution: str, view: ProgressView | None, begin: Begin, *, prune: bool = False
    ) -> Json:
        resume = self._resume_command(execution)
        async with engine(store, self.warn) as local:
            with interruptible(f"interrupted; continue with `{resume}`"):
                state, last_old = await begin(local)
                state = await run_to_end(local, state, view, resume, last_old)
            if prune:
                self._prune_a_few(store)
            return local.run(state)

    def _resume_command(self, execution: str) -> str:
        return shlex.join(["noetl", "runs", "resume", execution, *(["--db", self.db] if self.db else [])])

    def watch(self, run: str, view: ProgressView | None, timeout: float | None = None) -> Json:
        async def watch(local: Engine, summary: Summary) -> Json:
            execution = summary.execution_id
            state = (await local.runtime.executions.load(execution)).state
            if not state.over and not is_owned(local.runtime.store, summary):
                self.warn(f"no process runs {execution}; continue with `{self._resume_command(execution)}`")
            with interruptible(f"stopped watching; {execution} goes on"):
                try:
                    async with asyncio.timeout(timeout):
                        return local.run(await _follow(local, state, view))
                except TimeoutError:
                    raise TimedOut(f"{execution} did not end within {timeout:g} s; it goes on") from None

        return self._with_engine(run, watch)

    def act(self, run: str, verb: str, body: Json) -> Json:
        """Cancel a run and its open children, or pause it; Conflict if that is not possible."""
        actor = local_actor()
        command, status = (Cancel(actor=actor, **body), "cancelled") if verb == "cancel" else (Pause(actor), "paused")
        state = self._decide(run, command).state
        if state.status != status:
            raise Conflict(f"cannot {verb} {state.id}: the run {status_phrase(state.status)}")
        return {"execution_id": state.id, "status": state.status}

    def signal(self, run: str, body: Json) -> Json:
        signal = Signal(body["name"], body["id"], body["payload"], body["keep"], local_actor())
        decided = self._decide(run, signal)
        result = signal_result(decided.state, decided.events, signal)
        return {"execution_id": decided.state.id, "name": signal.type, "id": signal.id, **result._asdict()}

    def _decide(self, run: str, command: Command) -> CommandResult:
        """Decide a command on the current log, and append the events. A cancel reaches open children too."""

        async def decide() -> CommandResult:
            runtime = Runtime(LoadedPlaybooks(store), SystemClock())
            try:
                result = await runtime.committer.handle(execution, command)
                for child in open_below(store, execution) if isinstance(command, Cancel) else ():
                    await runtime.committer.handle(child, Cancel("the run that started it was cancelled"))
                return result
            finally:
                runtime.thread.shutdown()

        with opened(self.db, "write") as store:
            execution = find_run(store, run).execution_id
            return asyncio.run(decide())

    def resume(self, run: str, new_view: NewView) -> Json:
        """Continue a paused or abandoned run and follow it to its end."""
        with opened_file(self.db) as store:
            summary = find_run(store, run)
        return asyncio.run(self._resume(summary, new_view))

    def resume_all(self, new_view: NewView, on_end: Callable[[Json], None]) -> int:
        """Resume every paused or abandoned run; returns their number. `on_end` gets each run when it ends. All run at
        once, each with an engine of its own, so that a waiting run does not delay the others."""

        async def resume(summary: Summary) -> None:
            on_end(await self._resume(summary, new_view))

        async def resume_all() -> None:
            outcomes = await asyncio.gather(*map(resume, summaries), return_exceptions=True)
            errors = [error for error in outcomes if error is not None]
            if errors:
                raise next((error for error in errors if isinstance(error, Interrupted)), errors[0])

        with opened_file(self.db) as store:
            summaries = _abandoned(store)
        asyncio.run(resume_all())
        return len(summaries)

    async def _resume(self, summary: Summary, new_view: NewView) -> Json:
        """Run it here if no process owns it. Otherwise resume and follow it, and take over if its process dies."""
        execution = summary.execution_id
        with opened(self.db) as store:  # a run whose process died may have ended and left open children
            if summary.status in ENDED and not open_below(store, execution):
                raise Conflict(f"cannot resume {execution}: the run {status_phrase(summary.status)}")
        if not summary.local:
            raise Conflict(f"{execution} belongs to a server: start `noetl server` on this database to continue it")
        if summary.parent is not None:
            parent = self._resume_command(summary.parent)
            raise Conflict(f"{execution} is a child of {summary.parent}: resume that with `{parent}`")

        async def take_over(local: Engine) -> tuple[Execution, int]:
            last_old = local.runtime.store.seq(execution)
            state = await local.embedded.adopt(execution)
            if state.status == "paused":
                state = (await local.runtime.committer.handle(execution, Resume(local_actor()))).state
            return state, last_old

        while True:
            with opened_file(self.db, "write") as store, Owner.acquire(store, execution) or nullcontext() as owner:
                if owner is not None:
                    return await self._run_to_end(store, execution, new_view(), take_over)
                async with engine(store, self.warn) as local:
                    result = await local.runtime.committer.handle(execution, Resume(local_actor()))
                    if not result.events and not result.state.over:
                        raise not_owned(execution)
                    with interruptible(f"stopped watching; {execution} goes on in another process"):
                        state = await _follow(local, result.state, new_view(), store)
                    if state.over:
                        return local.run(state)

    def prune(self, age: float, dry_run: bool) -> tuple[int, Items]:
        """The number of removed runs; with `dry_run` the runs that would be removed."""
        now = SystemClock().now()
        with opened(self.db, "read" if dry_run else "write") as store:
            if dry_run:
                return 0, _items(store, store.prunable(now - age))
            removed = 0
            while batch := store.prune(now - age, PRUNE_BATCH):
                removed += batch
            return removed, []

    def _prune_a_few(self, store: Store) -> None:
        """Remove old runs from a database that has no server. Where nothing is old, this is one query."""
        age = retention()
        if age is None:
            return
        before = SystemClock().now() - age
        try:
            if store.prunable(before, 1):
                store.prune(before, PRUNED_AFTER_RUN)
        except StoreError as error:  # the run itself has ended, and the next one tries again
            self.warn(f"noetl: cannot remove old runs: {error}")


def _items(store: Store, summaries: Sequence[Summary]) -> Items:
    return [json_of(item) for item in listed_items(store, summaries, SystemClock().now())]


def _abandoned(store: SqliteStore) -> list[Summary]:
    """Runs that are paused, or that are open (or have open children) without a process."""
    summaries = (summary for status in OPEN for summary in store.summaries(statuses=[status], limit=ALL))
    tops = {top.execution_id: top for summary in summaries for top in [top_of(store, summary)]}
    return [top for top in tops.values() if top.local and (top.status == "paused" or not is_owned(store, top))]


async def _follow(
    local: Engine, state: Execution, view: ProgressView | None, owner_in: SqliteStore | None = None
) -> Execution:
    """Show a run of another process until it ends; with `owner_in` also until no process owns it any more."""
    follower = Follower(local, state, view)
    try:
        while True:
            rows = await follower.show_new()
            if rows and rows[-1].type == e.PlaybookProcessed.name:
                break
            if not rows and owner_in is not None and not Owner.is_owned(owner_in, state.id):
                break
            await asyncio.sleep(FOREIGN_CHANGES_SECONDS)
    finally:
        await follower.close()
    return (await local.runtime.executions.load(state.id)).state
