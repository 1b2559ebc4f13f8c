"""The client of a server, whose workers execute the runs. A response with an error status becomes the error that a
database would have raised."""

from __future__ import annotations

import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
import msgspec

from noetl import errors
from noetl.client.client import (
    ALL,
    MAX_MATCHES,
    MAX_OUTAGE_SECONDS,
    PAGE,
    ExplainArgs,
    Items,
    Json,
    NewView,
    ProgressView,
    RunFilter,
    latest,
    no_worker,
    not_one_run,
    print_warnings,
)
from noetl.dsl.problem import Problem
from noetl.engine.signal_fields import signal_command
from noetl.errors import NotFound, ServerUnreachable, UsageError
from noetl.model.event_filter import ALL_EVENTS, EventFilter
from noetl.problem_documents import problem_document
from noetl.settings import ServerAddress
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from noetl.client.client import NewRun, OnProgress, Warn
    from noetl.runtime.catalog import PlaybookSource
    from noetl.store.store import WorkerDirective

CALL = httpx2.Timeout(60.0, connect=5.0)
LONG_CALL = httpx2.Timeout(None, connect=5.0)  # for requests that may take the server long
RETRY_SECONDS = 0.5
UNATTENDED_SECONDS = 3.0  # after that, a run that no worker takes is reported
START_RETRIES = 2
ID_LENGTH = 36
KEY = re.compile("[0-9a-f]{64}")  # key of a value in the database; other stores are not reachable through the API
IDLE_FRAME_SECONDS = 0.5  # how often a view is updated while nothing happens
MAX_WARNED_CHILDREN = 20  # number of children of a run whose warnings are requested
SILENCE_SECONDS = 60.0  # a stream sends a keep-alive comment more often than that
REQUEST_ID = "X-Request-Id"  # a header of every response of a noetl server
ERRNO = re.compile(r"\[Errno -?\d+\] ")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
JSON_BODY = {"Content-Type": "application/json"}
YAML_BODY = {"Content-Type": "application/yaml"}
ERRORS: dict[int, Callable[[str], errors.NoetlError]] = {
    403: errors.AuthError,
    **dict.fromkeys([404, 410], NotFound),
    **dict.fromkeys([409, 412], errors.Conflict),
    **dict.fromkeys([400, 413, 415, 422], UsageError),
}


class Http:
    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        headers = JSON_BODY | ({"Authorization": f"Bearer {address.token}"} if address.token else {})
        self.client = httpx2.Client(base_url=f"{address.url}/api/v1", headers=headers, timeout=CALL)

    def get(self, path: str, /, *, timeout: httpx2.Timeout = CALL, **query: Any) -> Json:
        params = {name: value for name, value in query.items() if value is not None}
        return self.call("GET", path, params=params, timeout=timeout)

    def post(self, path: str, body: Json | None = None, *, timeout: httpx2.Timeout = CALL, key: str = "") -> Json:
        """`key` is an Idempotency-Key."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.call("POST", path, content=msgspec.json.encode(body or {}), headers=headers, timeout=timeout)

    def call(self, method: str, path: str, **options: Any) -> Json:
        content = self.send(method, path, **options).content
        return msgspec.json.decode(content, type=dict[str, Any]) if content else {}

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        with self.reaching():
            response = self.client.request(method, path, **options)
        self.check(response)
        return response

    def check(self, response: httpx2.Response) -> None:
        """Raise the error of a response that is not a success, and ServerUnreachable for that of another program."""
        if REQUEST_ID not in response.headers:
            status = f"{response.status_code} {response.reason_phrase}"
            raise ServerUnreachable(
                f"no noetl server responds at {self.address.url}: the response {status} is from another program; check "
                "the address, or the proxy in front of the server"
            )
        if not response.is_success:
            response.read()
            raise error_of(response)

    def items(self, path: str, limit: int = ALL, /, **query: Any) -> Iterator[Json]:
        cursor = None
        while limit > 0:
            page = self.get(path, cursor=cursor, limit=min(limit, PAGE), **query)
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page.get("next")
            if not cursor:
                return

    def start(self, path: str, body: Json) -> Json:
        """Send a request that starts an execution. It is sent again if no response arrives, and starts only one."""
        key = secrets.token_hex(16)
        for _ in range(START_RETRIES):
            try:
                return self.post(path, body, key=key)
            except ServerUnreachable as error:
                if isinstance(error.__cause__, httpx2.ConnectError | httpx2.InvalidURL):
                    raise
                time.sleep(RETRY_SECONDS)
        return self.post(path, body, key=key)

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """ServerUnreachable for errors of the connection."""
        try:
            yield
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            reason = ERRNO.sub("", str(error)) or type(error).__name__
            raise ServerUnreachable(
                f"no server responds at {self.address.url}: {reason}; check the address, or start a server with "
                "`noetl server`"
            ) from error


def error_of(response: httpx2.Response) -> errors.NoetlError:
    """The error of a response, which has the same exit code as that of a database."""
    problem, detail = problem_document(response)
    if response.status_code == 401:
        host = response.request.url.host
        return errors.AuthError(f"{detail}; set NOETL_TOKEN or NOETL_TOKEN_FILE to a token of {host}")
    if response.status_code == 422 and problem.get("problems"):
        return errors.PlaybookInvalid([problem_of(fault) for fault in problem["problems"]])
    if problem.get("type") == "urn:noetl:problem:credential":
        return errors.AuthError(detail)
    if problem.get("type") == "urn:noetl:problem:forbidden":
        return errors.AuthError(f"{detail}; to use another token, set NOETL_TOKEN or NOETL_TOKEN_FILE")
    if kind := ERRORS.get(response.status_code):
        return kind(detail)
    return errors.NoetlError(f"the server responded with status {response.status_code}: {detail}")


def problem_of(fault: Json, **more: str) -> Problem:
    """A problem of a playbook as the API describes it."""
    return msgspec.convert(fault | more, Problem)


class HttpClient:
    def __init__(self, address: ServerAddress, warn: Warn) -> None:
        self.http, self.url = Http(address), address.url
        if address.exposed:
            warn(f"noetl: {address.url} is not encrypted: others can read the token")
        self.runs = HttpRuns(self.http, warn)
        self.catalog = HttpCatalog(self.http, "/playbooks")
        self.credentials = HttpCredentials(self.http, "/credentials")
        self.tokens = HttpResource(self.http, "/tokens")
        self.users = HttpResource(self.http, "/users")
        self.schedules = PagedResource(self.http, "/schedules")
        self.hooks = HttpResource(self.http, "/hooks")
        self.workers = HttpWorkers(self.http, "/workers")
        self.server = HttpServerControl(self.http)

    def close(self) -> None:
        self.http.client.close()


class HttpResource:
    def __init__(self, http: Http, path: str) -> None:
        self.http, self.path = http, path

    def list(self, **query: Any) -> Items:
        return list(self.http.get(self.path, **query)["items"])

    def get(self, name: str, **query: Any) -> Json:
        return self.http.get(f"{self.path}/{quote(name)}", **query)

    def add(self, body: Json) -> Json:
        return self.http.post(self.path, body)

    def put(self, name: str, body: Json, replace: bool = True) -> Json:
        if not replace:
            return self.add(body | {"name": name})
        return self.http.call("PUT", f"{self.path}/{name}", content=msgspec.json.encode(body))

    def act(self, name: str, verb: str) -> Json:
        return self.http.post(f"{self.path}/{name}/{verb}", key=secrets.token_hex(16))

    def delete(self, name: str) -> None:
        self.http.send("DELETE", f"{self.path}/{name}")


class PagedResource(HttpResource):
    def list(self, **query: Any) -> Items:
        return list(self.http.items(self.path, **query))


class HttpCredentials(HttpResource):
    def rotate(self, forget_old: bool) -> Json:
        raise UsageError("clients of a server have no access to its master key: rotate it with --db on its machine")


class HttpWorkers(HttpResource):
    def pools(self) -> Items:
        return list(self.http.get(self.path)["pools"])

    def direct(self, directive: WorkerDirective, body: Json) -> Items:
        return list(self.http.post(f"{self.path}/{directive}", body)["items"])


class HttpServerControl:
    def __init__(self, http: Http) -> None:
        self.http = http

    def get(self) -> Json:
        return {"url": self.http.address.url} | self.http.get("/server")

    def stop(self) -> None:
        self.http.post("/server/stop")


class HttpCatalog(PagedResource):
    def register(self, source: PlaybookSource) -> Json:
        body = self.http.call("POST", "/playbooks", content=source.text, headers=YAML_BODY)
        return {key: body[key] for key in ("playbook_id", "path", "version")}

    def validate(self, text: bytes, strict: bool) -> Json:
        strictly = {"strict": "true"} if strict else {}
        return self.http.call("POST", "/playbooks/validate", content=text, headers=YAML_BODY, params=strictly)


class HttpRuns:
    in_process = False

    def __init__(self, http: Http, warn: Warn) -> None:
        self.http, self.warn = http, warn

    def find(self, run: str) -> str:
        if len(run) == ID_LENGTH:
            return run.lower()
        if place := latest(run):
            filter, back = place
            matches = self.list(filter, back + 1)[back:]
        else:
            matches = list(self.http.items("/executions", MAX_MATCHES + 1, prefix=run.lower())) if run else []
        if len(matches) != 1:
            raise not_one_run(run, [(item["execution_id"], item["name"], item["status"]) for item in matches])
        return str(matches[0]["execution_id"])

    def list(self, filter: RunFilter, limit: int) -> Items:
        parent = "none" if filter.top else None if filter.parent is None else self.find(filter.parent)
        query = filter._replace(parent=parent)._asdict() | {"since": rfc3339(filter.since, "microseconds")}
        query["until"] = None if filter.until == inf else rfc3339(filter.until, "microseconds")
        query["status"] = ",".join(filter.statuses) or None
        del query["top"], query["statuses"]
        return [item | {"orphaned": False} for item in self.http.items("/executions", limit, **query)]

    def get(self, run: str) -> Json:
        record = self.http.get(f"/executions/{self.find(run)}")
        return record | {"error_line": self._error_line(record), "orphaned": False}

    def _error_line(self, record: Json) -> str:
        """The line of the playbook with the error; empty if there is none, or the error has a line of its own."""
        error = record["error"]
        if error is None or not error["line"] or "source" in error["details"]:
            return ""
        with suppress(NotFound):  # the run was pruned meanwhile
            text: str = self.http.get(f"/texts/{record['playbook_id']}")["text"]
            return text.splitlines()[int(error["line"]) - 1]
        return ""

    def events(self, run: str, after: int = 0, filter: EventFilter = ALL_EVENTS) -> Iterator[Items]:
        path, following = f"/executions/{self.find(run)}/events", after
        query: Json = {"run": filter.run, "item": filter.item, "q": filter.text}
        query["type"] = ",".join(sorted(filter.types or ()))
        while following is not None:
            page = self.http.get(path, after=following, limit=PAGE, **query)
            if page["items"]:
                yield page["items"]
            following = page["next"]

    def item(self, run: str) -> Json:
        for item in self.http.items("/executions", 1, prefix=self.find(run)):
            return item
        raise not_one_run(run, [])

    def output(self, run: str, after: int = 0) -> Items:
        path, lines = f"/executions/{self.find(run)}/logs", []
        while page := self.http.get(path, after=after)["items"]:
            lines += page
            after = page[-1]["number"]
        return lines

    def contents(self, keys: Sequence[str]) -> dict[str, bytes]:
        contents = {}
        for key in filter(KEY.fullmatch, keys):
            with suppress(NotFound):
                contents[key] = self.http.send("GET", f"/results/{key}").content
        return contents

    def export(self, run: str) -> Iterator[bytes]:
        path = f"/executions/{self.find(run)}/export"
        with self.http.reaching(), self.http.client.stream("GET", path, timeout=LONG_CALL) as response:
            self.http.check(response)
            yield from response.iter_bytes()

    def explain(self, run: str, args: ExplainArgs) -> Json:
        return self.http.get(f"/executions/{self.find(run)}/explain", **args._asdict())

    def diff(self, a: str, b: str) -> Json:
        """The server compares in slices, so that no request takes long."""
        first, second = self.find(a), self.find(b)
        path, params = f"/executions/{first}/diff", {"with": second}
        diff = self.http.call("GET", path, params=params)
        while diff["equal"] is None:
            places = {"after": diff["scanned_to"], "b_after": diff["b_scanned_to"]}
            diff = self.http.call("GET", path, params=params | places)
        return {"a": first, "b": second} | diff

    def replay(self, run: str, source: PlaybookSource | None) -> Json:
        from noetl.client.replay import replay_remote

        execution = self.find(run)
        if source is not None:
            return self._replay_with(execution, source)
        state = self.http.get(f"/executions/{execution}/state")
        events = [event for page in self.events(execution) for event in page if event["seq"] <= state["seq"]]

        def text_of(digest: str) -> bytes:
            return str(self.http.get(f"/texts/{digest}")["text"]).encode()

        return replay_remote(execution, state, events, text_of, self.contents)

    def _replay_with(self, execution: str, source: PlaybookSource) -> Json:
        """Decide the log again under a playbook. The server does it in slices, so that no request takes long."""
        from noetl.client.replay import INITIAL_STATE, STATE_PARTS, decided_again

        body, path = {"playbook": source.text.decode("utf-8-sig")}, f"/executions/{execution}"
        replayed = self.http.post(f"{path}/replay", body)
        while replayed["equal"] is None:
            replayed = self.http.post(f"{path}/replay", body | {"after": replayed["scanned_to"]})
        seq, state = replayed["scanned_to"], INITIAL_STATE | {"execution_id": execution}
        if seq:
            state = self.http.get(f"{path}/state", at=seq, parts=",".join(STATE_PARTS))
        return decided_again(replayed, state)

    def verify(self, run: str | None, on_progress: OnProgress | None = None) -> Json:
        """All runs are checked page by page, so that no request takes too long."""
        if run is not None:
            return self.http.get(f"/executions/{self.find(run)}/verify", timeout=LONG_CALL)
        page = checked = self.http.get("/verify", timeout=LONG_CALL)
        while page["next"] is not None:
            page = self.http.get("/verify", timeout=LONG_CALL, cursor=page["next"])
            checked = {key: checked[key] + page[key] for key in ("executions", "violations")}
        return {key: checked[key] for key in ("executions", "violations")}

    def start(self, new: NewRun, path: str = "/executions") -> Json:
        started = self.http.start(path, _request_body(new))
        print_warnings(started.get("warnings", ()), self.warn)
        return started

    def run(self, new: NewRun, view: ProgressView | None, timeout: float | None = None) -> Json:
        run = self.watch(self.start(new)["execution_id"], view, timeout)
        if new.source is None:  # those of a file were printed before it was started
            self._warn_about_children(run["execution_id"])
        return _located(run, new.source)

    def preview_fork(self, run: str, new: NewRun) -> Json:
        path = f"{self._fork_path(run, new)}?dry_run=true"
        return self.http.post(path, _request_body(new), timeout=LONG_CALL)

    def fork(self, run: str, new: NewRun, view: ProgressView | None, on_forked: Callable[[Json], None]) -> Json:
        forked = self.start(new, self._fork_path(run, new))
        on_forked(forked)
        return _located(self._watch(forked["execution_id"], view, inf, forked["source_seq"]), new.source)

    def _fork_path(self, run: str, new: NewRun) -> str:
        return f"/executions/{self.find(run)}/{'fork' if 'at' in new.body else 'retry'}"

    def resume(self, run: str, new_view: NewView) -> Json:
        execution = self.find(run)
        last_old = self.get(execution)["events"]
        self.http.post(f"/executions/{execution}/resume")
        return self._watch(execution, new_view(), inf, last_old)

    def resume_all(self, new_view: NewView, on_end: Callable[[Json], None]) -> int:
        """Only paused runs wait for a command: those that lost their worker continue by themselves."""
        paused = [(item["execution_id"], item["events"]) for item in self.http.items("/executions", status="paused")]
        for execution, _ in paused:
            self.http.post(f"/executions/{execution}/resume")
        for execution, last_old in paused:
            on_end(self._watch(execution, new_view(), inf, last_old))
        return len(paused)

    def watch(self, run: str, view: ProgressView | None, timeout: float | None = None) -> Json:
        deadline = inf if timeout is None else time.monotonic() + timeout
        return self._watch(self.find(run), view, deadline)

    def _watch(self, execution: str, view: ProgressView | None, deadline: float, last_old: int = 0) -> Json:
        """Follow a run to its end; the view has shown the events up to `last_old`."""
        from noetl.client.replay import row_of

        view = view or ProgressView()
        with interruptible(f"stopped watching; {execution} goes on at the server"), self._warning(execution):
            view.begin(str(self.get(execution)["name"]), execution, last_old, partial(self._signal_commands, execution))
            with closing(view):
                for envelope in with_pauses(self._follow(execution, deadline), IDLE_FRAME_SECONDS):
                    row = row_of(envelope) if envelope is not None else None
                    view.show([row] if row is not None else [], [envelope].copy if envelope is not None else list)
        return self.get(execution)

    def _warn_about_children(self, execution: str) -> None:
        """Print the warnings about the payloads of the children of a run, as `noetl run` does."""
        for child in self.http.items("/executions", MAX_WARNED_CHILDREN, parent=execution):
            warnings = self.http.get(f"/executions/{child['execution_id']}")["warnings"]
            print_warnings([f"{child['path']}: {warning}" for warning in warnings], self.warn)

    def _signal_commands(self, execution: str, step: str, names: tuple[str, ...]) -> Sequence[str]:
        """The commands as the server has them; without data if the step does not wait any more."""
        for wait in self.get(execution)["waiting"]:
            if (wait["step"], wait["names"]) == (step, list(names)):
                commands: Sequence[str] = wait["commands"]
                return commands
        return [signal_command(execution, name) for name in names]

    @contextmanager
    def _warning(self, execution: str) -> Iterator[None]:
        """Warn after a few seconds if no worker takes the work of a run."""

        def check() -> None:
            with suppress(errors.NoetlError, RuntimeError):  # RuntimeError: the client was closed
                for pool in self.http.get(f"/executions/{execution}")["missing_pools"]:
                    self.warn(f"noetl: {no_worker(pool, self.http.address.url)}")

        timer = Timer(UNATTENDED_SECONDS, check)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _follow(self, execution: str, deadline: float) -> Iterator[Json]:
        """Events as they arrive, up to the last one. The server may be unreachable for a while. TimedOut after the
        deadline."""
        seq, last_heard = 0, time.monotonic()
        while True:
            try:
                for envelope in self._stream(execution, seq, deadline):
                    seq, last_heard = envelope["seq"], time.monotonic()
                    yield envelope
                    if envelope["event_type"] == "playbook.processed":
                        return
            except ServerUnreachable:
                if not seq or time.monotonic() - last_heard > MAX_OUTAGE_SECONDS:
                    raise
            _check_deadline(execution, deadline)
            time.sleep(RETRY_SECONDS)

    def _stream(self, execution: str, after: int, deadline: float) -> Iterator[Json]:
        path, headers = f"/executions/{execution}/events", {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        read = max(0.1, min(SILENCE_SECONDS, deadline - time.monotonic()))
        timeout = httpx2.Timeout(None, connect=5.0, read=read)
        with self.http.reaching(), self.http.client.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.status_code == 429:  # too many streams of this token: retry until one of them ends
                return
            self.http.check(response)
            for line in response.iter_lines():
                _check_deadline(execution, deadline)
                if line.startswith("data:"):
                    envelope = msgspec.json.decode(line[5:].strip())
                    if isinstance(envelope, dict) and "seq" in envelope:
                        yield envelope

    def act(self, run: str, verb: str, body: Json) -> Json:
        execution = self.find(run)
        status = (self.http.post(f"/executions/{execution}/{verb}", body) or self.get(execution))["status"]
        return {"execution_id": execution, "status": status}

    def signal(self, run: str, body: Json) -> Json:
        answer = self.http.post(f"/executions/{self.find(run)}/signals", body)
        return {key: answer[key] for key in ("execution_id", "name", "id", "answer", "pending", "awaited")}

    def prune(self, age: float, dry_run: bool) -> tuple[int, Items]:
        removed, body = 0, {"older_than": age, "dry_run": dry_run}
        while True:
            batch = self.http.post("/executions/prune", body, timeout=LONG_CALL)
            removed += batch["removed"]
            if dry_run or not batch["more"]:
                return removed, batch["items"]


def _request_body(new: NewRun) -> Json:
    return new.body if new.source is None else new.body | {"playbook": new.source.text.decode("utf-8-sig")}


def _located(run: Json, source: PlaybookSource | None) -> Json:
    """The errors of a run in the file that was sent: the server does not know its name."""
    if source is None:
        return run
    continued = [_in_file(error, source) for error in run["continued"]]
    return run | {"error": run["error"] and _in_file(run["error"], source), "continued": continued}


def _in_file(error: Json, source: PlaybookSource) -> Json:
    is_elsewhere = "file" in error["details"].get("source", {})
    return error if is_elsewhere else error | {"file": source.display_path}


def _check_deadline(execution: str, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise errors.TimedOut(f"{execution} did not end in time; it goes on")


def with_pauses(items: Iterator[Json], seconds: float) -> Iterator[Json | None]:
    """The items as they arrive, read by a thread; None whenever none arrives for some seconds."""
    queue: SimpleQueue[Json | BaseException | None] = SimpleQueue()

    def read() -> None:
        try:
            for item in items:
                queue.put(item)
            queue.put(None)
        except BaseException as error:  # the caller raises it
            queue.put(error)

    Thread(target=read, daemon=True).start()
    while True:
        try:
            item = queue.get(timeout=seconds)
        except Empty:
            yield None
            continue
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return
        yield item


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block with Interrupted."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        raise errors.Interrupted(message) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
