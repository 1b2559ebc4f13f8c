"""The worker: slots that run work under leases and report what happened.

Each slot runs one lease at a time. With the report that ends a lease it asks for the next one, so a chain of steps
costs one commit a step. Facts travel in batches: while one batch is on its way to the store the next one gathers.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from noetl.classic.hooks import AwaitingEvent, FailureHandled
from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.commands import Claim, Report
from noetl.engine.limits import encoded_size
from noetl.engine.loops import FAST_LANE_SECONDS
from noetl.engine.state import Progress
from noetl.errors import NoetlError, TemplateFailed
from noetl.expression import Sealed, revealed
from noetl.keychain.keychain import Keychain, StoredCredential, open_handle
from noetl.keychain.redact import Redactor
from noetl.model.identity import TaskId, action_id
from noetl.model.outcome import Failure, Outcome, failed
from noetl.model.playbook import Playbook
from noetl.pipeline.host import Call, Done, Failed, Parked, Waiting
from noetl.pipeline.plan import PipelinePlan, TaskPlan
from noetl.pipeline.run import Pipeline
from noetl.pipeline.templates import has_references
from noetl.reference import BINARY, KEYCHAIN, KeychainView, Reference, TooLarge, refer, reference_to
from noetl.results.read import read_json, read_value
from noetl.results.stores import bucket_of, in_bucket, write_file
from noetl.scope import Scope, StepsView
from noetl.store.codec import check_value
from noetl.tools.base import Context
from noetl.tools.registry import Registry
from noetl.worker.work import Work

SHAPES = {b"{": "map", b"[": "list", b'"': "text"}
"""What JSON is, by its first byte."""
FACTS_AT_ONCE = 200
"""So many are reported at once, also where the playbook asks for a commit a step only, and where a lane has done many
quick items that nobody had to wait for. Whoever takes a report has others to listen to."""
KEPT_REDACTORS = 1_000
SCALARS = frozenset([bool, type(None)])
"""Results that are small and storable as they are."""


class Link(Protocol):
    """How a worker speaks to the runtime: in the same process or over HTTP."""

    most_content: int | None
    """Bytes that a report can bring as one content; None for as many as there is room for."""

    async def claim(self, command: Claim) -> list[Work]:
        """Leases on ready work, at most `slots`."""

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Whether the lease is still the worker's, and the work it asked for."""

    async def holds(self, execution: str, fence: int) -> bool:
        """Whether the worker still holds the lease. Waits for a heartbeat if necessary."""

    def plan(self, digest: str, step: str) -> PipelinePlan:
        """The compiled pipeline of a step."""

    def paused(self, execution: str) -> bool:
        """Whether an execution is to begin nothing new, as far as is known here."""

    async def fetch(self, reference: Reference) -> Any:
        """The value behind a reference, or TooLarge."""

    async def fetch_bytes(self, reference: Reference) -> bytes | TooLarge:
        """The JSON of the value behind a reference, or TooLarge."""

    def playbook(self, digest: str) -> Playbook:
        """The playbook that a lease belongs to."""

    def folder(self, digest: str) -> str:
        """The folder of a playbook's file on this machine; empty if it has none."""

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        """The file and line where a part of a playbook stands, as far as that is known."""

    async def shelve(self, bucket: str, key: str, content: bytes) -> None:
        """Put content that a report is going to bring into a bucket of NATS as well, if there is NATS."""

    async def credential(self, execution: str, name: str) -> StoredCredential:
        """A credential of the store, opened; NoetlError if there is none."""


WriteOutput = Callable[[str, str, str], None]
"""Takes a line of a task: `EXECUTION|TASK`, the stream and the line."""


class Rejected(Exception):
    """The lease is not ours any more: drop the work."""


class Worker:
    """Runs slots until it is told to stop."""

    def __init__(
        self, name: str, link: Link, registry: Registry, clock: Clock, slots: int, write_output: WriteOutput
    ) -> None:
        self.name, self.link, self.registry, self.clock = name, link, registry, clock
        self.slots, self.write_output = slots, write_output
        self.asked = 0
        """Slots that a claim on its way is to fill."""
        self.draining = False
        """Whether it is to begin nothing new: running tasks finish, what follows is handed back."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.leases: dict[tuple[str, int], asyncio.Task[None]] = {}
        self.fault: BaseException | None = None
        """What broke a slot: the store failed. Its work can only be resumed by whoever comes after us."""
        self.redactors: dict[str, Redactor] = {}
        """By execution, the latest ones: what one lease has opened may come back in another."""

    def redactor(self, execution: str) -> Redactor:
        """What hides the secrets of an execution in this process."""
        found = self.redactors.pop(execution, None) or Redactor()
        self.redactors[execution] = found
        while len(self.redactors) > KEPT_REDACTORS:
            del self.redactors[next(iter(self.redactors))]
        return found

    @property
    def free(self) -> int:
        return self.slots - len(self.tasks) - self.asked

    async def claim(self) -> None:
        """Fill the free slots with ready work."""
        if self.free > 0:
            self.asked = self.free
            try:
                works = await self.link.claim(Claim(self.name, self.asked))
            finally:
                self.asked = 0
            self.take(works)

    def take(self, works: list[Work]) -> None:
        """Run each piece of work in a slot of its own."""
        for work in works:
            task = asyncio.create_task(self._slot(work))
            self.tasks.add(task)
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.fault = self.fault or task.exception()

    def revoke(self, execution: str, fence: int) -> None:
        """Stop working on a lease that was taken away."""
        task = self.leases.get((execution, fence))
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Cancel what runs and wait until it is gone."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _slot(self, work: Work | None) -> None:
        """One lease after the other, as long as reports bring new work."""
        while work is not None:
            key = (work.execution, work.fence)
            task = asyncio.current_task()
            assert task is not None
            self.leases[key] = task
            try:
                more = await Lease(self, work).run()
            except Rejected:
                return
            finally:
                self.leases.pop(key, None)
            work = more[0] if more else None
            self.take(more[1:])


class Lease:
    """One piece of work from its first task to its last report."""

    def __init__(self, worker: Worker, work: Work) -> None:
        self.worker, self.work = worker, work
        self.plan = worker.link.plan(work.digest, work.step)
        self.facts: list[e.Event] = []
        self.told = 0
        """How many facts were reported."""
        self.blobs: dict[str, bytes] = {}
        """Content of references that is not stored yet."""
        self.more: list[Work] = []
        self.sending = asyncio.Lock()
        self.void = False
        playbook = worker.link.playbook(work.digest)
        self.keychain = Keychain(
            {entry.name: entry for entry in playbook.keychain},
            self._credential,
            playbook.path,
            work.pool,
            redactor=worker.redactor(work.execution),
        )
        """What was opened for this lease. It is hidden in whatever leaves, also of later leases of the execution."""
        self.redact = self.keychain.redactor.redact

    async def _credential(self, name: str) -> StoredCredential:
        return await self.worker.link.credential(self.work.execution, name)

    # -- facts ------------------------------------------------------------------------------------------------------

    def tell(self, fact: e.Event) -> None:
        self.facts.append(fact)

    async def durable(self) -> None:
        if self.work.durability == "task" or len(self.facts) > FACTS_AT_ONCE:
            await self.send()

    async def stored(self) -> None:
        await self.send()

    def paused(self) -> bool:
        return self.worker.draining or self.worker.link.paused(self.work.execution)

    async def send(self, *, claim: bool = False, hand_back: bool = False) -> None:
        """Report what has gathered, after what is on its way already; Rejected if the lease is void."""
        async with self.sending:
            if self.void:
                raise Rejected
            facts, self.facts = tuple(self.facts), []
            if not facts and not hand_back:
                return
            blobs = tuple(self.blobs.items())
            more_wanted = claim and not self.worker.draining
            asked = Claim(self.worker.name, 1 + max(0, self.worker.free)) if more_wanted else None
            held, more = await self.worker.link.report(
                self.work.execution, Report(self.work.fence, facts, self.told, asked, hand_back, blobs)
            )
            self.told += len(facts)
            self.more += more
            for key, _ in blobs:
                self.blobs.pop(key, None)
            self.void = not held and not claim and not hand_back
            if self.void:
                raise Rejected

    # -- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> list[Work]:
        work = self.work
        if self.keychain.entries:
            await self.keychain.learn()
        if work.handles or work.entries:
            await self.keychain.learn_opened(work.handles, work.entries)
        if work.items is None:
            await self._plain()
        else:
            await self._lane(work.items)
        self._let_go()
        await self.send(claim=True)
        return self.more

    def _let_go(self) -> None:
        """From here on the lease is the runtime's to end."""
        self.worker.leases.pop((self.work.execution, self.work.fence), None)

    async def _hand_back(self) -> None:
        """Give back the rest of a lane, and ask for other work with the same breath."""
        self._let_go()
        await self.send(claim=True, hand_back=True)

    async def _plain(self) -> None:
        pipeline = self._pipeline(None, self._iter(None, None))
        after_call = self.plan.after_call
        end = await (pipeline.run() if after_call is None else after_call.run(pipeline, self.work.after_call))
        run = self.work.run
        match end:
            case Done(result=result):
                self.tell(e.StepDone(run, result))
            case Failed(error=error, task=task, attempt=attempt):
                self.tell(e.StepFailed(run, error, task or None, attempt))
            case FailureHandled(error=error, task=task, attempt=attempt):
                self.tell(e.StepFailed(run, error, task or None, attempt, taken=True))
            case AwaitingEvent(finished=finished):
                self.tell(e.StepPaused(run, self.work.fence, "waiting", until="event", key=finished))
            case Waiting(until="resume"):
                await self.send(hand_back=True)
            case Waiting():
                self.tell(self._pause(end, None))

    async def _lane(self, items: list[Any]) -> None:
        run, started = self.work.run, self.now()
        for offset, item in enumerate(items):
            slow = not self.work.kept and self.now() - started > FAST_LANE_SECONDS
            if offset and (slow or self.paused()):
                await self._hand_back()  # a slow item must not make those behind it wait for this worker
                return
            index = self.work.first + offset
            self.tell(e.IterationStarted(run, index))
            end = await self._pipeline(index, self._iter(index, item)).run()
            match end:
                case Done(result=result):
                    self.tell(e.IterationDone(run, index, result))
                    soon = len(self.facts) > FACTS_AT_ONCE
                case Failed(error=error, task=task, attempt=attempt):
                    self.tell(e.IterationFailed(run, index, error, task, attempt))
                    soon = True
                case Waiting(until="resume"):
                    await self._hand_back()
                    return
                case Waiting():
                    self.tell(self._pause(end, index))
                    return
            if soon and offset + 1 < len(items):
                await self.send()

    def _pause(self, wait: Waiting, index: int | None) -> e.StepPaused:
        until: Any = wait.until
        request = self.redact(wait.request)
        fence = self.work.fence
        return e.StepPaused(
            self.work.run, fence, "waiting", index, until, wait.key, wait.due, request, chain=wait.chain
        )

    def _iter(self, index: int | None, item: Any) -> dict[str, Any]:
        if index is None:
            return {"index": 0}
        return {self.work.iterator: item, "index": index}

    def _pipeline(self, index: int | None, iteration: dict[str, Any]) -> Pipeline:
        work = self.work
        scope = Scope(
            workload=work.workload,
            ctx=dict(work.ctx) if work.parallel else work.ctx,
            args=work.args,
            args_by=work.args_by,
            iter=iteration,
            steps=StepsView(work.steps),
            tasks={},
            keychain=KeychainView(),
            execution_id=work.execution,
        )
        pipelines = work.progress if index is None else work.item_progress.get(index, {})
        inner = {prefix: progress for prefix, progress in pipelines.items() if prefix}
        progress = pipelines.get("") or Progress()
        return Pipeline(self.plan, work.run, scope, progress, self, index, "", inner)

    # -- host -------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.worker.clock.now()

    async def sleep(self, seconds: float) -> None:
        await self.worker.clock.sleep(seconds)

    async def call(self, call: Call) -> Outcome:
        """Call the tool; secrets in its outcome are hidden, and a large result is stored and becomes a reference."""
        plan = call.plan
        outcome = await self.keychain.redactor.redact_apart(await self._call(call))
        if type(outcome.result) in SCALARS:
            return outcome
        try:
            if isinstance(outcome.result, msgspec.Raw):
                return await self._stored(plan, outcome)
            outcome = await self._without_bytes(plan, outcome)
            limit = plan.task.spec.get("results", {}).get("inline_bytes", self.work.inline_bytes)
            if encoded_size(outcome.result, limit) > limit:
                return await self._stored(plan, outcome)
            check_value(outcome.result)
        except Failure as failure:
            return failure.outcome
        except RecursionError:
            return failed("input", f"the result of {plan.kind.name} is nested too deeply to be stored")
        except (NoetlError, TypeError, ValueError, msgspec.MsgspecError) as error:
            return failed("input", f"the result of {plan.kind.name} can't be stored: {str(error).lstrip(': ')}")
        return outcome

    async def _without_bytes(self, plan: TaskPlan, outcome: Outcome) -> Outcome:
        """Bytes are stored as they are, whatever their size: JSON has none."""
        result = outcome.result
        parts = result if isinstance(result, dict) else {"": result}
        if not any(isinstance(value, bytes) for value in parts.values()):
            return outcome
        kept = {
            key: await self._kept(plan, reference_to(value, hint=BINARY), value) if isinstance(value, bytes) else value
            for key, value in parts.items()
        }
        return msgspec.structs.replace(outcome, result=kept if isinstance(result, dict) else kept[""])

    async def _opened(self, value: Any) -> Any:
        """Args for a tool that is handed them: the JSON of stored values, which nobody has to build and take apart."""
        if isinstance(value, Reference):
            if value.is_secret:
                return await self.secret(value)
            if value.schema_hint == BINARY:
                return value
            fresh = value.digest in self.blobs
            content = read_json(self, value) if fresh else await self.worker.link.fetch_bytes(value)
            return value if isinstance(content, TooLarge) else msgspec.Raw(content)
        if isinstance(value, Sealed):
            return revealed(value)
        if not has_references(value):
            return value
        if isinstance(value, dict):
            return {key: await self._opened(item) for key, item in value.items()}
        return [await self._opened(item) for item in value]

    def blob(self, key: str) -> bytes | None:
        """Content that only this lease has yet."""
        return self.blobs.get(key)

    async def content(self, reference: Reference) -> Any:
        try:
            if reference.digest in self.blobs:
                return read_value(self, reference)
            return await self.worker.link.fetch(reference)
        except NoetlError as error:
            raise TemplateFailed(str(error)) from error

    async def secret(self, reference: Reference) -> Any:
        """Open a secret for the inputs of a tool."""
        try:
            if reference.store != KEYCHAIN:
                return await open_handle(self.keychain, reference)
            name, _, field = reference.key.partition(".")
            fields = await self.keychain.fields(name)
        except Failure as failure:
            raise TemplateFailed(str(failure)) from failure
        if field not in fields:
            raise TemplateFailed(f"keychain.{name} has no field {field!r}: it has {', '.join(sorted(fields))}")
        return fields[field]

    async def _stored(self, plan: TaskPlan, outcome: Outcome) -> Outcome:
        if isinstance(outcome.result, msgspec.Raw):
            content = bytes(outcome.result)
            reference = reference_to(content, hint=SHAPES.get(content[:1], "number"))
        else:
            reference, content = refer(outcome.result)
        return msgspec.structs.replace(outcome, result=await self._kept(plan, reference, content))

    async def _kept(self, plan: TaskPlan, reference: Reference, content: bytes) -> Reference:
        """Where the playbook wants large values: in a file, in an object store, or with the next report in the
        database, and then perhaps in NATS as well."""
        store = plan.task.spec.get("results", {}).get("store") or self.work.result_store
        match store.get("kind"):
            case "file":
                return await asyncio.to_thread(write_file, store.get("path", ".noetl/results"), reference, content)
            case "object":
                from noetl.results.object import fault_of, write_object

                if (fault := fault_of(store["url"])) is not None:
                    raise Failure("not_found", fault)
                return await asyncio.to_thread(write_object, store["url"], reference, content)
        most = self.worker.link.most_content
        if most is not None and len(content) > most:
            raise _too_large(plan, len(content), most)
        self.blobs[reference.key] = content
        if store.get("kind") != "nats_object":
            return reference
        await self.worker.link.shelve(bucket_of(store), reference.key, content)
        return in_bucket(reference, bucket_of(store))

    def _source(self, plan: TaskPlan, task: TaskId) -> tuple[str, int] | None:
        """Where the task's program text begins, for tracebacks."""
        if not plan.kind.verbatim:
            return None
        labels = "/".join(part.partition("#")[0] for part in task.path.split("/"))
        return self.worker.link.place(self.work.digest, f"{self.work.step}/{labels}/{plan.kind.verbatim[0]}")

    async def _call(self, call: Call) -> Outcome:
        """Call the tool under its time limit; every error becomes an outcome."""
        plan, task, scope = call.plan, call.task, call.scope
        run = self.worker.registry.runner(plan.kind.name)
        if run is None:
            return failed("not_found", f"this version can't run tools of kind {plan.kind.name!r}")
        try:
            args = await self._opened(scope["args"]) if plan.kind.takes_args else scope["args"]
            own = await self._opened({key: args[key] for key in plan.task.args})
            typed = msgspec.convert(call.inputs, plan.kind.inputs, strict=False)
        except (msgspec.ValidationError, TemplateFailed) as error:
            return failed("input", f"{plan.kind.name}: {error}")
        action = action_id(self.work.execution, task)
        context = Context(
            execution=self.work.execution,
            action=action,
            idempotency_key=f"{action}.{call.repeats}" if call.repeats else action,
            attempt=call.attempt,
            step=self.work.step,
            task=plan.label,
            timeout=plan.timeout,
            args=args,
            prev=scope["_prev"],
            own_args=own,
            spec=plan.task.spec,
            bound=call.bound,
            credential=self.keychain.credential,
            redact=self.redact,
            keychain=self.keychain,
            folder=self.worker.link.folder(self.work.digest),
            source=self._source(plan, task),
            retries=plan.task.spec.get("retry", 0),
            now=self.now(),
            log=lambda stream, line: self.worker.write_output(
                f"{self.work.execution}|{task}", stream, self.redact(line)
            ),
        )
        limit = plan.timeout if isinstance(plan.timeout, int | float) else None
        if not await self.worker.link.holds(self.work.execution, self.work.fence):
            raise Rejected
        try:
            if limit is None:
                return await run(typed, context)
            async with asyncio.timeout(limit):
                return await run(typed, context)
        except Parked:
            raise
        except Failure as failure:
            return failure.outcome
        except TimeoutError as error:
            late = f"the call took longer than {limit:g} s" if limit is not None else str(error) or "it took too long"
            return failed("timeout", late, retryable=True)
        except NoetlError as error:
            return failed("internal", str(error))
        except Exception as error:  # a defect of a tool must not take the worker down
            last = traceback.extract_tb(error.__traceback__)[-1]
            return failed("internal", f"{type(error).__name__}: {error} ({last.name}:{last.lineno})")


def _too_large(plan: TaskPlan, size: int, most: int) -> Failure:
    message = (
        f"the result of {plan.kind.name} takes {size:,} bytes, and a server takes at most {most:,} from a worker: "
        "have it written elsewhere (`spec.results.store` of kind `file` or `object`), or give back less"
    )
    return Failure("too_large", message, size=size, limit=most)
