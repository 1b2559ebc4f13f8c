"""The link of a worker to a server on another machine.

A worker survives a server that goes away: every call is made again until it is answered. That is safe because what is
said twice counts once: reports are counted by their facts, claims have ids, content has its hash. Only two things end
a call without an answer: the server says that the token is not good (then the worker ends), or that the call itself
makes no sense (then its lease is dropped, and the server will notice).

Reports that gather while others are on their way travel in one request.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import httpx2
import msgspec

from noetl.classic.hooks import step_plan
from noetl.clock import uptime
from noetl.dsl.compile import Loaded, load
from noetl.engine.commands import Claim, Report
from noetl.engine.events import StepFailed
from noetl.errors import AuthError, Conflict, NatsUnavailable, NoetlError, NotFound
from noetl.keychain.keychain import StoredCredential
from noetl.model.outcome import Error
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.reference import CHUNKS, Reference, TooLarge, decoded
from noetl.results.read import read_json, read_value
from noetl.tools.registry import KINDS
from noetl.worker import wire
from noetl.worker.output import Output
from noetl.worker.reports import Reports, Unanswerable
from noetl.worker.terms import Key, LeaseTerms
from noetl.worker.work import Work

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

POLL_SECONDS = 10.0
"""How long the server may keep a claim waiting for work."""
CALL = httpx2.Timeout(15.0, connect=5.0)
POLL = httpx2.Timeout(POLL_SECONDS + 5.0, connect=5.0)
"""Seconds without data after which a connection is dropped and the request is sent again on a new one."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 2.0
"""Between two tries; doubled each time."""
DEFECT_TRIES = 8
"""How often an answer of "internal error" is believed to pass by."""
APART_BYTES = 32 << 10
"""Content from that size on travels by itself, before the report that refers to it."""
KEPT_BYTES = 32 << 20
"""How much of stored content is kept, for it is often read by many leases at once."""
READ_BYTES = 64 << 20
MAX_PLAYBOOKS = 100
MAX_PLAYBOOK_BYTES = 4 << 20
"""Maximum number and total text size of the cached playbooks. In memory they take up to twenty times as much."""
PASSING = frozenset([408, 425, 429, 502, 503, 504])
"""Answers that mean: not now."""


class HttpLink:
    """How a worker speaks to a server over HTTP."""

    most_content: int | None = wire.CONTENT_BYTES

    def __init__(
        self, url: str, token: str, worker: str, pool: str, output: Output, shelf: ObjectBuckets | None = None
    ) -> None:
        self.worker, self.pool, self.output = worker, pool, output
        self.client = httpx2.AsyncClient(base_url=api(url), headers=headers(token), timeout=CALL)
        self.known = asyncio.Event()
        """Set when the server has heard the heart. Nothing is claimed before: with its first beat a worker says that
        whoever had its name before is gone, and holds nothing."""
        self.held: dict[Key, int] = {}
        """Leases that the worker itself does not list: on their way to it, or back. How often each."""
        self.paused_executions: frozenset[str] = frozenset()
        self.playbooks = CompiledPlaybooks()
        self.contents = Kept()
        self.reports = Reports(lambda batch: self.call("POST", "/report", batch))
        self.process = secrets.token_hex(8)
        """Makes claim ids unique: a restarted process must not get the leases of its predecessor."""
        self.number = 0
        self.terms = LeaseTerms()
        self.shelf = shelf
        """Where content in NATS is put and read without the server, if this worker knows NATS."""
        self.buckets: dict[str, str] = {}
        """Content that the server is to put into a bucket when it gets it."""

    async def close(self) -> None:
        await self.client.aclose()

    # -- work -------------------------------------------------------------------------------------------------------

    async def claim(self, command: Claim) -> list[Work]:
        """Waits for work on the server."""
        await self.known.wait()
        asked = wire.ClaimRequest(command.worker, self.pool, command.slots, self._claim_id(), POLL_SECONDS)
        repeated = msgspec.structs.replace(asked, again=True)
        requested = uptime()
        answer = await self.call("POST", "/claim", wire.encode(asked), again=wire.encode(repeated), limits=POLL)
        return await self.arrived(wire.decode_works(answer), requested)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """What is large goes ahead; the rest travels together with other reports."""
        with self._holding([(execution, report.fence)]):
            apart = [blob for blob in report.blobs if len(blob[1]) >= APART_BYTES or blob[0] in self.buckets]
            try:
                for key, content in apart:
                    bucket = f"&bucket={self.buckets[key]}" if key in self.buckets else ""
                    path = f"/blobs/{key}?execution={execution}{bucket}"
                    await self.call("PUT", path, content, kind="application/octet-stream")
                    self.buckets.pop(key, None)
            except (Conflict, NotFound):  # content is taken for a lease only, and this one is gone
                return False, []
            claim = report.claim and Claim(self.worker, report.claim.slots, self.pool, self._claim_id())
            blobs = tuple(blob for blob in report.blobs if blob not in apart)
            requested = uptime()
            verdicts = await self._tell(execution, msgspec.structs.replace(report, claim=claim, blobs=blobs))
        works = [wire.decode_work(work) for work in verdicts.works]
        return verdicts.held, await self.arrived(works, requested)

    async def _tell(self, execution: str, report: Report) -> wire.Verdicts:
        lines = self.output.take()
        try:
            return await self.reports.tell(wire.report_request(execution, report, lines))
        except NotFound:
            return wire.Verdicts("rejected")
        except BaseException:
            self.output.put_back(lines)
            raise

    async def arrived(self, works: list[Work], requested: float) -> list[Work]:
        """Work with all that is needed to begin it. What can't be run here fails, and says why."""
        if not self.known.is_set():  # another process has the name of this worker since
            for work in works:
                await self.report(work.execution, Report(work.fence, (), hand_back=True))
            return []
        able: list[Work] = []
        leases = [(work.execution, work.fence) for work in works]
        self.terms.grant(leases, requested)
        with self._holding(leases):
            for work in works:
                try:
                    able.append(LinkedWork(**msgspec.structs.asdict(work), compiled=await self._know(work)))
                except (NoetlError, msgspec.MsgspecError) as error:
                    if isinstance(error, AuthError):
                        raise
                    why = Error("internal", f"worker {self.worker} can't run this step: {error}")
                    await self.report(work.execution, Report(work.fence, (StepFailed(work.run, why),)))
        return able

    async def _know(self, work: Work) -> CompiledPlaybook:
        compiled = self.playbooks.get(work.digest)
        if compiled is None:
            text = await self.call("GET", f"/playbooks/{work.digest}")
            compiled = CompiledPlaybook(load("playbook", text, KINDS), len(text))
            if compiled.playbook.digest != work.digest:
                raise NoetlError("this worker reads the playbook in another way: is it of another version of noetl?")
            self.playbooks.add(compiled)
        compiled.plan(work.step)
        return compiled

    def _claim_id(self) -> str:
        self.number += 1
        return f"{self.process}.{self.number}"

    async def holds(self, execution: str, fence: int) -> bool:
        """Waits for a heartbeat if the last one that named the lease is too old."""
        await self.terms.current((execution, fence))
        return True

    @contextmanager
    def _holding(self, keys: Sequence[Key]) -> Iterator[None]:
        """Inside, the heart names these leases."""
        for key in keys:
            self.held[key] = self.held.get(key, 0) + 1
        try:
            yield
        finally:
            for key in keys:
                self.held[key] -= 1
                if not self.held[key]:
                    del self.held[key]

    # -- what works needs -------------------------------------------------------------------------------------------

    def plan(self, digest: str, step: str) -> PipelinePlan:
        """Made when it is first asked for."""
        return self.playbooks.of_work(digest).plan(step)

    def playbook(self, digest: str) -> Playbook:
        return self.playbooks.of_work(digest).playbook

    def folder(self, digest: str) -> str:
        """None: the file is on the machine of whoever registered it."""
        return ""

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        compiled = self.playbooks.of_work(digest)
        mark = compiled.places.get(part)
        return None if mark is None else (compiled.playbook.path, mark.line)

    def paused(self, execution: str) -> bool:
        return execution in self.paused_executions

    async def fetch(self, reference: Reference) -> Any:
        """The value behind a reference, its checksum verified."""
        if reference.size > READ_BYTES:
            return TooLarge(f"limit {READ_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_value, Parts({}), reference)
        return read_value(await self._parts(reference), reference)

    async def fetch_bytes(self, reference: Reference) -> bytes | TooLarge:
        """The JSON of the value behind a reference."""
        if reference.size > READ_BYTES:
            return TooLarge(f"limit {READ_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_json, Parts({}), reference)
        return read_json(await self._parts(reference), reference)

    async def _parts(self, reference: Reference) -> Parts:
        """All content that it takes to read a value."""
        if reference.store == "file":
            return Parts({})
        content = await self._shelved(reference) or await self._content(reference.digest)
        parts = {reference.digest: content}
        if reference.schema_hint == CHUNKS and content is not None:
            for key in decoded(content, reference)["chunks"]:
                parts[key] = await self._content(key)
        return Parts(parts)

    async def shelve(self, bucket: str, key: str, content: bytes) -> None:
        """Put content into a bucket of NATS, here or with the help of the server."""
        if self.shelf is not None:
            with suppress(NatsUnavailable):  # the server may do better
                await self.shelf.put(bucket, key, content)
                return
        self.buckets[key] = bucket

    async def _shelved(self, reference: Reference) -> bytes | None:
        """Content that is in NATS, if this worker can read it there; the server has it, too."""
        if reference.store != "nats_object" or self.shelf is None:
            return None
        if (known := self.contents.get(reference.digest)) is not None:
            return known
        try:
            content = await self.shelf.get(*reference.key.split("/", 1))
        except NatsUnavailable:
            return None
        if content is not None:
            self.contents.keep(reference.digest, content)
        return content

    async def _content(self, key: str) -> bytes | None:
        if (known := self.contents.get(key)) is not None:
            return known
        try:
            content = await self.call("GET", f"/blobs/{key}")
        except NotFound:
            return None
        self.contents.keep(key, content)
        return content

    async def credential(self, execution: str, name: str) -> StoredCredential:
        asked = wire.SecretRequest(self.worker, execution, name)
        found: StoredCredential = wire.decode_as(
            StoredCredential, await self.call("POST", "/secrets", wire.encode(asked))
        )
        return found

    # -- calls ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        again: bytes | None = None,
        limits: httpx2.Timeout = CALL,
        kind: str = "application/json",
    ) -> bytes:
        """The answer, however long it takes to get one. `again` is what is said after the first time."""
        defects, pause = 0, FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = await self.client.request(
                    method, path, content=content, headers=_content_type(content, kind), timeout=limits
                )
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.is_success:
                return answer.content
            if answer is not None and answer.status_code not in PASSING:
                defects += 1
                if answer.status_code < 500 or defects >= DEFECT_TRIES:
                    raise refusal(answer)
            await asyncio.sleep(pause * (1 + random.random()))
            pause = min(LAST_PAUSE_SECONDS, pause * 2)
            content = again or content


class CompiledPlaybook:
    """A compiled playbook and the pipelines of its steps."""

    def __init__(self, loaded: Loaded, size: int) -> None:
        self.playbook, self.places, self.size = loaded.require(), loaded.places, size
        self.plans: dict[str, PipelinePlan] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompiledPlaybook) and other.playbook.digest == self.playbook.digest

    def __hash__(self) -> int:
        return hash(self.playbook.digest)

    def plan(self, step: str) -> PipelinePlan:
        """The compiled pipeline of a step, created on first use."""
        if step not in self.plans:
            found = next(one for one in self.playbook.steps if one.name == step)
            self.plans[step] = step_plan(found, KINDS.require)
        return self.plans[step]


class LinkedWork(Work):
    """Work that keeps its playbook in memory until the lease ends."""

    compiled: CompiledPlaybook | None = None


class CompiledPlaybooks:
    """The most recently used playbooks, up to a number and a total size, and those of work that exists."""

    def __init__(self, playbooks: int = MAX_PLAYBOOKS, size: int = MAX_PLAYBOOK_BYTES) -> None:
        self.max_playbooks, self.max_bytes, self.bytes = playbooks, size, 0
        self.in_memory: WeakValueDictionary[str, CompiledPlaybook] = WeakValueDictionary()
        self._recent: OrderedDict[str, CompiledPlaybook] = OrderedDict()

    def get(self, digest: str) -> CompiledPlaybook | None:
        """A playbook in memory; marks it as most recently used."""
        compiled = self.in_memory.get(digest)
        if compiled is not None:
            self.add(compiled)
        return compiled

    def of_work(self, digest: str) -> CompiledPlaybook:
        """The playbook of a piece of work that exists; NotFound if there is no such work."""
        compiled = self.in_memory.get(digest)
        if compiled is None:
            raise NotFound(f"the playbook {digest[:12]} is not in memory")
        return compiled

    def add(self, compiled: CompiledPlaybook) -> None:
        """Cache a playbook and evict the least recently used ones. A playbook above the limit is cached alone."""
        digest = compiled.playbook.digest
        if digest not in self._recent:
            self._recent[digest] = self.in_memory[digest] = compiled
            self.bytes += compiled.size
        self._recent.move_to_end(digest)
        while len(self._recent) > self.max_playbooks or (self.bytes > self.max_bytes and len(self._recent) > 1):
            self.bytes -= self._recent.popitem(last=False)[1].size


class Kept:
    """Content that was read lately, up to a size."""

    def __init__(self) -> None:
        self.contents: OrderedDict[str, bytes] = OrderedDict()
        self.size = 0

    def get(self, key: str) -> bytes | None:
        content = self.contents.get(key)
        if content is not None:
            self.contents.move_to_end(key)
        return content

    def keep(self, key: str, content: bytes) -> None:
        if key in self.contents or len(content) > KEPT_BYTES // 4:
            return
        self.contents[key] = content
        self.size += len(content)
        while self.size > KEPT_BYTES:
            self.size -= len(self.contents.popitem(last=False)[1])


class Parts(NamedTuple):
    """Content that has been fetched."""

    contents: dict[str, bytes | None]

    def blob(self, key: str) -> bytes | None:
        return self.contents.get(key)


def api(url: str) -> str:
    """Where a server listens to workers."""
    return f"{url.rstrip('/')}/api/v1/worker"


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def refusal(answer: httpx2.Response) -> NoetlError:
    """Why a server does not do what it was asked, as an error of ours."""
    said = _said(answer)
    match answer.status_code:
        case 401 | 403:
            return AuthError(f"the server does not let this worker in: {said}")
        case 404 | 410:
            return NotFound(said)
        case 409:
            return Conflict(said)
    return Unanswerable(f"the server answers {answer.status_code}: {said}")


def _said(answer: httpx2.Response) -> str:
    """The words of a problem document, or the beginning of whatever came."""
    try:
        problem = msgspec.json.decode(answer.content)
        return str(problem.get("detail") or problem["title"])
    except (msgspec.DecodeError, KeyError, AttributeError):
        return answer.text[:200] or answer.reason_phrase


def _content_type(content: bytes | None, kind: str) -> dict[str, str]:
    return {} if content is None else {"Content-Type": kind}
