"""The link of a worker to a server over HTTP.

A worker survives an outage of the server: every request is repeated until it is answered. That is safe because requests
are idempotent: reports count their facts, claims have ids, content has its hash. Two responses end a call: the server
rejects the token (then the worker stops), or the request itself (then the lease is dropped, and expires).

Reports that arrive while others are in flight share one request.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

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
from noetl.worker.playbook_cache import PlaybookCache
from noetl.worker.reports import Reports, RequestRejected
from noetl.worker.terms import Key, LeaseTerms
from noetl.worker.work import Work

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

POLL_SECONDS = 10.0
"""Maximum time for which the server waits for work before it answers a claim."""
CALL = httpx2.Timeout(15.0, connect=5.0)
POLL = httpx2.Timeout(POLL_SECONDS + 5.0, connect=5.0)
"""Seconds without data after which a connection is dropped and the request is sent again on a new one."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 2.0
"""Pause before a request is repeated; doubled each time."""
MAX_SERVER_ERRORS = 8
"""Internal server errors after which a request is not repeated."""
SEPARATE_BYTES = 32 << 10
"""Content from this size on is sent in a request of its own, before the report that refers to it."""
CACHE_BYTES = 32 << 20
"""Size of the cache of stored content, which is often read by many leases at once."""
MAX_READ_BYTES = 64 << 20
TRANSIENT = frozenset([408, 425, 429, 502, 503, 504])
"""Status codes after which a request is repeated."""


class HttpLink:
    """The link of one worker."""

    most_content: int | None = wire.CONTENT_BYTES

    def __init__(
        self, url: str, token: str, worker: str, pool: str, output: Output, object_buckets: ObjectBuckets | None = None
    ) -> None:
        self.worker, self.pool, self.output = worker, pool, output
        self.client = httpx2.AsyncClient(base_url=api(url), headers=headers(token), timeout=CALL)
        self.registered = asyncio.Event()
        """Set when the server has answered a heartbeat. Nothing is claimed before: the first heartbeat revokes the
        leases of an earlier process of that name."""
        self.held: dict[Key, int] = {}
        """Leases in flight, to the worker or back, which it does not list itself; with a count."""
        self.paused_executions: frozenset[str] = frozenset()
        self.playbooks: PlaybookCache[CompiledPlaybook] = PlaybookCache()
        self.contents = ContentCache()
        self.reports = Reports(lambda batch: self.call("POST", "/report", batch))
        self.process = secrets.token_hex(8)
        """Makes claim ids unique: a restarted process must not get the leases of its predecessor."""
        self.number = 0
        self.terms = LeaseTerms()
        self.object_buckets = object_buckets
        """Buckets that this worker reads and writes without the server, if it has a connection to NATS."""
        self.buckets: dict[str, str] = {}
        """Bucket by key of content, for the server to copy it to."""

    async def close(self) -> None:
        await self.client.aclose()

    # -- work -------------------------------------------------------------------------------------------------------

    async def claim(self, command: Claim) -> list[Work]:
        """Leases on ready work; the server waits for some."""
        await self.registered.wait()
        request = wire.ClaimRequest(command.worker, self.pool, command.slots, self._claim_id(), POLL_SECONDS)
        repeated = msgspec.structs.replace(request, again=True)
        requested = uptime()
        works = await self.call("POST", "/claim", wire.encode(request), again=wire.encode(repeated), limits=POLL)
        return await self._accept(wire.decode_works(works), requested)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Send large content first; the rest shares a request with other reports."""
        with self._holding([(execution, report.fence)]):
            separate = [blob for blob in report.blobs if len(blob[1]) >= SEPARATE_BYTES or blob[0] in self.buckets]
            try:
                for key, content in separate:
                    bucket = f"&bucket={self.buckets[key]}" if key in self.buckets else ""
                    path = f"/blobs/{key}?execution={execution}{bucket}"
                    await self.call("PUT", path, content, kind="application/octet-stream")
                    self.buckets.pop(key, None)
            except (Conflict, NotFound):  # the server accepts content for a lease only, and this one has ended
                return False, []
            claim = report.claim and Claim(self.worker, report.claim.slots, self.pool, self._claim_id())
            blobs = tuple(blob for blob in report.blobs if blob not in separate)
            requested = uptime()
            verdicts = await self._send(execution, msgspec.structs.replace(report, claim=claim, blobs=blobs))
        works = [wire.decode_work(work) for work in verdicts.works]
        return verdicts.held, await self._accept(works, requested)

    async def _send(self, execution: str, report: Report) -> wire.Verdicts:
        lines = self.output.take()
        try:
            return await self.reports.send(wire.report_request(execution, report, lines))
        except NotFound:
            return wire.Verdicts("rejected")
        except BaseException:
            self.output.put_back(lines)
            raise

    async def _accept(self, works: list[Work], requested: float) -> list[Work]:
        """Load the playbooks of granted work. A step that cannot run here fails with the reason."""
        if not self.registered.is_set():  # another process has taken the name of this worker
            for work in works:
                await self.report(work.execution, Report(work.fence, (), hand_back=True))
            return []
        runnable: list[Work] = []
        leases = [(work.execution, work.fence) for work in works]
        self.terms.grant(leases, requested)
        with self._holding(leases):
            for work in works:
                try:
                    runnable.append(LinkedWork(**msgspec.structs.asdict(work), compiled=await self._compiled(work)))
                except (NoetlError, msgspec.MsgspecError) as error:
                    if isinstance(error, AuthError):
                        raise
                    reason = Error("internal", f"worker {self.worker} cannot run this step: {error}")
                    await self.report(work.execution, Report(work.fence, (StepFailed(work.run, reason),)))
        return runnable

    async def _compiled(self, work: Work) -> CompiledPlaybook:
        compiled = self.playbooks.get(work.digest)
        if compiled is None:
            text = await self.call("GET", f"/playbooks/{work.digest}")
            compiled = CompiledPlaybook(load("playbook", text, KINDS), len(text))
            if compiled.digest != work.digest:
                raise NoetlError(
                    "this worker compiles the playbook to another digest: run the same version of noetl as the server"
                )
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
        """Name these leases in heartbeats."""
        for key in keys:
            self.held[key] = self.held.get(key, 0) + 1
        try:
            yield
        finally:
            for key in keys:
                self.held[key] -= 1
                if not self.held[key]:
                    del self.held[key]

    # -- playbooks and content --------------------------------------------------------------------------------------

    def plan(self, digest: str, step: str) -> PipelinePlan:
        return self.playbooks.require(digest).plan(step)

    def playbook(self, digest: str) -> Playbook:
        return self.playbooks.require(digest).playbook

    def folder(self, digest: str) -> str:
        return ""  # the file is on the machine of its author

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        compiled = self.playbooks.require(digest)
        mark = compiled.places.get(part)
        return None if mark is None else (compiled.playbook.path, mark.line)

    def paused(self, execution: str) -> bool:
        return execution in self.paused_executions

    async def fetch(self, reference: Reference) -> Any:
        """The value behind a reference, its checksum verified."""
        if reference.size > MAX_READ_BYTES:
            return TooLarge(f"limit {MAX_READ_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_value, Parts({}), reference)
        return read_value(await self._parts(reference), reference)

    async def fetch_bytes(self, reference: Reference) -> bytes | TooLarge:
        """The JSON of the value behind a reference."""
        if reference.size > MAX_READ_BYTES:
            return TooLarge(f"limit {MAX_READ_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_json, Parts({}), reference)
        return read_json(await self._parts(reference), reference)

    async def _parts(self, reference: Reference) -> Parts:
        """The content of a value, with its chunks."""
        if reference.store == "file":
            return Parts({})
        content = await self._in_bucket(reference) or await self._content(reference.digest)
        parts = {reference.digest: content}
        if reference.schema_hint == CHUNKS and content is not None:
            for key in decoded(content, reference)["chunks"]:
                parts[key] = await self._content(key)
        return Parts(parts)

    async def put_in_bucket(self, bucket: str, key: str, content: bytes) -> None:
        """Copy content to a bucket of NATS, directly or through the server."""
        if self.object_buckets is not None:
            with suppress(NatsUnavailable):  # the server may have a connection
                await self.object_buckets.put(bucket, key, content)
                return
        self.buckets[key] = bucket

    async def _in_bucket(self, reference: Reference) -> bytes | None:
        """Content from a bucket of NATS; None if it has to be read from the server."""
        if reference.store != "nats_object" or self.object_buckets is None:
            return None
        if (cached := self.contents.get(reference.digest)) is not None:
            return cached
        try:
            content = await self.object_buckets.get(*reference.key.split("/", 1))
        except NatsUnavailable:
            return None
        if content is not None:
            self.contents.add(reference.digest, content)
        return content

    async def _content(self, key: str) -> bytes | None:
        if (cached := self.contents.get(key)) is not None:
            return cached
        try:
            content = await self.call("GET", f"/blobs/{key}")
        except NotFound:
            return None
        self.contents.add(key, content)
        return content

    async def credential(self, execution: str, name: str) -> StoredCredential:
        request = wire.encode(wire.SecretRequest(self.worker, execution, name))
        credential: StoredCredential = wire.decode_as(StoredCredential, await self.call("POST", "/secrets", request))
        return credential

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
        """The content of the response; retries until there is one. `again` is the content of repeated requests."""
        server_errors, pause = 0, FIRST_PAUSE_SECONDS
        while True:
            try:
                response = await self.client.request(
                    method, path, content=content, headers=_content_type(content, kind), timeout=limits
                )
            except httpx2.TransportError:
                response = None
            if response is not None and response.is_success:
                return response.content
            if response is not None and response.status_code not in TRANSIENT:
                server_errors += 1
                if response.status_code < 500 or server_errors >= MAX_SERVER_ERRORS:
                    raise error_of(response)
            await asyncio.sleep(pause * (1 + random.random()))
            pause = min(LAST_PAUSE_SECONDS, pause * 2)
            content = again or content


class CompiledPlaybook:
    """A compiled playbook and the pipelines of its steps."""

    def __init__(self, loaded: Loaded, size: int) -> None:
        self.playbook, self.places, self.size = loaded.require(), loaded.places, size
        self.digest = self.playbook.digest
        self.plans: dict[str, PipelinePlan] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompiledPlaybook) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def plan(self, step: str) -> PipelinePlan:
        """The compiled pipeline of a step, created on first use."""
        if step not in self.plans:
            self.plans[step] = step_plan(next(s for s in self.playbook.steps if s.name == step), KINDS.require)
        return self.plans[step]


class LinkedWork(Work):
    """Work that keeps its playbook in memory until the lease ends."""

    compiled: CompiledPlaybook | None = None


class ContentCache:
    """The most recently read content, up to a total size."""

    def __init__(self) -> None:
        self.contents: OrderedDict[str, bytes] = OrderedDict()
        self.size = 0

    def get(self, key: str) -> bytes | None:
        content = self.contents.get(key)
        if content is not None:
            self.contents.move_to_end(key)
        return content

    def add(self, key: str, content: bytes) -> None:
        if key in self.contents or len(content) > CACHE_BYTES // 4:
            return
        self.contents[key] = content
        self.size += len(content)
        while self.size > CACHE_BYTES:
            self.size -= len(self.contents.popitem(last=False)[1])


class Parts(NamedTuple):
    """Content that has been fetched."""

    contents: dict[str, bytes | None]

    def blob(self, key: str) -> bytes | None:
        return self.contents.get(key)


def api(url: str) -> str:
    """The URL of the worker protocol."""
    return f"{url.rstrip('/')}/api/v1/worker"


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def error_of(response: httpx2.Response) -> NoetlError:
    """The error of a response that is not a success."""
    detail = _detail(response)
    match response.status_code:
        case 401 | 403:
            return AuthError(f"the server rejected this worker's token: {detail}")
        case 404 | 410:
            return NotFound(detail)
        case 409:
            return Conflict(detail)
    return RequestRejected(f"the server answered {response.status_code}: {detail}")


def _detail(response: httpx2.Response) -> str:
    """The detail of a problem document, or the beginning of the content."""
    try:
        problem = msgspec.json.decode(response.content)
        return str(problem.get("detail") or problem["title"])
    except (msgspec.DecodeError, KeyError, AttributeError):
        return response.text[:200] or response.reason_phrase


def _content_type(content: bytes | None, kind: str) -> dict[str, str]:
    return {} if content is None else {"Content-Type": kind}
