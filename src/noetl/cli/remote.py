"""A server, as the verbs see it. What it refuses becomes an error of ours, with the exit code that this has locally."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import httpx2
import msgspec

from noetl.dsl.problem import Problem
from noetl.errors import (
    AuthError,
    Conflict,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    ServerUnreachable,
    TimedOut,
    UsageError,
)
from noetl.settings import ServerAddress, is_this_machine

CALL = httpx2.Timeout(60.0, connect=5.0)
LONG = httpx2.Timeout(None, connect=5.0)
"""For what may take the server a while."""
STREAM = httpx2.Timeout(None, connect=5.0, read=60.0)
"""A stream says at least every so often that it is alive."""
PAGE = 1000
FEW = 10
LAST = "last"
PATIENCE_SECONDS = 60.0
"""How long a server that was there may be away while a run is followed."""
AGAIN_SECONDS = 0.5
ID_LENGTH = 36

Envelope = dict[str, Any]


class Server:
    """The API of a server."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        self.client = httpx2.Client(base_url=f"{address.url}/api/v1", headers=headers, timeout=CALL)

    # -- calls ------------------------------------------------------------------------------------------------------

    def get(self, path: str, *, timeout: httpx2.Timeout = CALL, **query: Any) -> Any:
        """What the server has there."""
        given = {key: value for key, value in query.items() if value is not None}
        return self._answer("GET", path, params=given, timeout=timeout)

    def post(self, path: str, body: Any = None, *, timeout: httpx2.Timeout = CALL, **headers: str) -> Any:
        """Ask for something."""
        named = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        content = msgspec.json.encode({} if body is None else body)
        return self._answer("POST", path, content=content, headers=named, timeout=timeout)

    def post_text(self, path: str, text: bytes, **query: Any) -> Any:
        """Hand over the text of a playbook."""
        given = {key: value for key, value in query.items() if value is not None}
        return self._answer("POST", path, content=text, headers={"Content-Type": "application/yaml"}, params=given)

    def put(self, path: str, body: Any) -> Any:
        return self._answer(
            "PUT", path, content=msgspec.json.encode(body), headers={"Content-Type": "application/json"}
        )

    def delete(self, path: str) -> None:
        self._answer("DELETE", path)

    def _answer(self, method: str, path: str, **more: Any) -> Any:
        with self._reached():
            answer = self.client.request(method, path, **more)
        if not answer.is_success:
            raise refusal(answer)
        return msgspec.json.decode(answer.content) if answer.content else None

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise ServerUnreachable(f"no server answers at {self.address.url}: {why}") from error

    # -- executions -------------------------------------------------------------------------------------------------

    def pages(self, path: str, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
        """The items of a list, page by page, as many as are wanted."""
        cursor = None
        while limit > 0:
            page = self.get(path, cursor=cursor, limit=min(limit, PAGE), **query)
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page.get("next")
            if not cursor:
                return

    def pick(self, run: str) -> str:
        """The id of the run that an id, the beginning of one, or `last` means."""
        if len(run) == ID_LENGTH:
            return run.lower()
        if run == LAST:
            newest = next((one for one in self.pages("/executions", PAGE * FEW) if one.get("parent") is None), None)
            if newest is None:
                raise NotFound("there are no runs yet")
            return str(newest["execution_id"])
        found = list(self.pages("/executions", FEW + 1, prefix=run.lower())) if run else []
        if not found:
            raise NotFound(f"no run {run!r}: `noetl runs list` shows them")
        if len(found) > 1:
            names = "\n".join(f"  {one['execution_id']}  {one['name']}  {one['status']}" for one in found[:FEW])
            more = "\n  ..." if len(found) > FEW else ""
            raise UsageError(f"{run!r} is the beginning of several runs:\n{names}{more}")
        return str(found[0]["execution_id"])

    def start(self, request: dict[str, Any]) -> str:
        """Begin an execution: its id."""
        return str(self.begin("/executions", request)["execution_id"])

    def begin(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Ask for an execution to begin. Asked twice, because no answer came, it begins once."""
        key = secrets.token_hex(16)
        for patience in (True, True, False):
            try:
                found: dict[str, Any] = self.post(path, request, Idempotency_Key=key)
                return found
            except ServerUnreachable as error:
                if not patience or isinstance(error.__cause__, httpx2.ConnectError | httpx2.InvalidURL):
                    raise
                time.sleep(AGAIN_SECONDS)
        raise AssertionError

    def execution(self, execution: str) -> dict[str, Any]:
        """The execution as `noetl run -o json` shows it, and more."""
        found: dict[str, Any] = self.get(f"/executions/{execution}")
        return found

    def events(self, execution: str, after: int = 0) -> Iterator[list[Envelope]]:
        """The events so far, page by page."""
        while page := self.get(f"/executions/{execution}/events", after=after, limit=PAGE)["items"]:
            yield page
            after = page[-1]["seq"]

    def follow(self, execution: str, until: float | None = None) -> Iterator[Envelope]:
        """Events as they come, to the last one. The server may go away for a while. TimedOut after `until`."""
        seq, heard = 0, time.monotonic()
        while True:
            try:
                for one in self._stream(execution, seq, until):
                    seq, heard = one["seq"], time.monotonic()
                    yield one
                    if one["event_type"] == "playbook.processed":
                        return
            except ServerUnreachable:
                if not seq or time.monotonic() - heard > PATIENCE_SECONDS:
                    raise
            _in_time(until)
            time.sleep(AGAIN_SECONDS)

    def _stream(self, execution: str, after: int, until: float | None) -> Iterator[Envelope]:
        path, headers = f"/executions/{execution}/events", {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self._reached(), self.client.stream("GET", path, headers=headers, timeout=_left(until)) as answer:
            if answer.status_code == 429:  # too many streams of this token: until one of them ends
                return
            if not answer.is_success:
                answer.read()
                raise refusal(answer)
            for line in answer.iter_lines():
                _in_time(until)
                if line.startswith("data:"):
                    one = msgspec.json.decode(line[5:].strip())
                    if isinstance(one, dict) and "seq" in one:
                        yield one


def _left(until: float | None) -> httpx2.Timeout:
    """The stream's time limits; where somebody waits for a while only, it is not to be silent for longer."""
    if until is None:
        return STREAM
    return httpx2.Timeout(None, connect=5.0, read=max(0.1, min(60.0, until - time.monotonic())))


def _in_time(until: float | None) -> None:
    if until is not None and time.monotonic() > until:
        raise TimedOut("the run has not ended in time; it goes on")


@contextmanager
def server(address: ServerAddress) -> Iterator[Server]:
    """The server while the block lasts."""
    one = Server(address)
    with one.client:
        if address.url.startswith("http://") and not is_this_machine(address.url):
            click.echo(f"noetl: {address.url} is not encrypted: others can read the token", err=True)
        yield one


# -- refusals -------------------------------------------------------------------------------------------------------


def refusal(answer: httpx2.Response) -> NoetlError:
    """Why a server does not do what it was asked."""
    problem = _problem(answer)
    said = str(problem.get("detail") or problem.get("title") or answer.text[:200] or answer.reason_phrase)
    match answer.status_code:
        case 401:
            return AuthError(f"{said}; NOETL_TOKEN (or NOETL_TOKEN_FILE) has the token for {answer.request.url.host}")
        case 403:
            return AuthError(said)
        case 404 | 410:
            return NotFound(said)
        case 409 | 412:
            return Conflict(said)
        case 422 if problem.get("problems"):
            return PlaybookInvalid([_fault(one) for one in problem["problems"]])
        case 400 | 413 | 415 | 422:
            return UsageError(said)
    return NoetlError(f"the server answers {answer.status_code}: {said}")


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _fault(one: dict[str, Any]) -> Problem:
    known = {name: one[name] for name in Problem.__struct_fields__ if name in one}
    return msgspec.convert({"source": ""} | known, Problem)
