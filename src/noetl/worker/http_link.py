"""The link of a worker to a server over HTTP.

A worker survives an outage of the server: every request is repeated until it is answered, which is safe because reports
count their facts, claims have ids, and content has its hash. Two responses end a call: the server rejects the token
(then the worker stops), or the request itself (then the lease is dropped, and expires).
"""

from __future__ import annotations

import secrets
from itertools import count
from typing import TYPE_CHECKING

import httpx2
import msgspec

from noetl.clock import uptime
from noetl.dsl.compile import load
from noetl.engine.commands import Claim, Report
from noetl.engine.events import StepFailed
from noetl.errors import AuthError, Conflict, NoetlError, NotFound
from noetl.keychain.keychain import StoredCredential
from noetl.model.outcome import Error
from noetl.tools.registry import KINDS
from noetl.worker import wire
from noetl.worker.output import OutputBuffer
from noetl.worker.playbook_cache import File, PlaybookCache, RunnablePlaybook
from noetl.worker.remote_contents import RemoteContents
from noetl.worker.server_client import Reports, ServerClient
from noetl.worker.terms import LeaseTerms
from noetl.worker.work import Work

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

POLL_SECONDS = 10.0  # maximum time for which the server waits for work before it answers a claim
POLL = httpx2.Timeout(POLL_SECONDS + 5.0, connect=5.0)
SEPARATE_BYTES = 32 << 10  # content from this size on is sent before the report that refers to it


class LinkedWork(Work):
    compiled: RunnablePlaybook | None = None  # keeps the playbook in memory until the lease ends


class HttpLink:
    most_content: int | None = wire.CONTENT_BYTES

    def __init__(
        self,
        http: httpx2.AsyncClient,
        worker: str,
        pool: str,
        output: OutputBuffer,
        buckets: ObjectBuckets | None = None,
    ) -> None:
        self.worker, self.pool, self.output = worker, pool, output
        self.server = ServerClient(http)
        self.contents = RemoteContents(self.server, buckets)
        self.reports = Reports(lambda batch: self.server.call("POST", "/report", batch))
        self.terms = LeaseTerms(output.send_now)
        self.playbooks: PlaybookCache[RunnablePlaybook] = PlaybookCache()
        self.playbook = self.playbooks.require
        process = secrets.token_hex(8)  # a restarted process must not get the leases of its predecessor
        self.claim_ids = (f"{process}.{number}" for number in count(1))

    async def close(self) -> None:
        await self.server.http.aclose()

    async def claim(self, command: Claim) -> list[Work]:
        await self.terms.registered.wait()
        request = wire.ClaimRequest(command.worker, self.pool, command.slots, next(self.claim_ids), POLL_SECONDS)
        repeated = wire.encode(msgspec.structs.replace(request, again=True))
        requested = uptime()
        works = await self.server.call("POST", "/claim", wire.encode(request), repeated=repeated, limits=POLL)
        return await self._accept(wire.decode_works(works), requested)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Send large content first; the rest shares a request with other reports."""
        buckets, lines = self.contents.buckets, []
        with self.terms.holding([(execution, report.fence)]):
            separate = [blob for blob in report.blobs if len(blob[1]) >= SEPARATE_BYTES or blob[0] in buckets]
            try:
                for key, content in separate:
                    bucket = f"&bucket={buckets[key]}" if key in buckets else ""
                    path = f"/blobs/{key}?execution={execution}{bucket}"
                    await self.server.call("PUT", path, content)
                    buckets.pop(key, None)
            except (Conflict, NotFound):  # the server accepts content for a lease only, and this one has ended
                return False, []
            claim = report.claim and Claim(self.worker, report.claim.slots, self.pool, next(self.claim_ids))
            blobs = tuple(blob for blob in report.blobs if blob not in separate)
            requested, lines = uptime(), self.output.take()
            report = msgspec.structs.replace(report, claim=claim, blobs=blobs)
            try:
                verdicts = await self.reports.send(wire.report_request(execution, report, lines))
            except NotFound:
                return False, []
            except BaseException:
                self.output.put_back(lines)
                raise
        return verdicts.held, await self._accept([wire.decode_work(work) for work in verdicts.works], requested)

    async def _accept(self, works: list[Work], requested: float) -> list[Work]:
        """Load the playbooks of granted work. A step that cannot run here fails with the reason."""
        if not self.terms.registered.is_set():  # another process has taken the name of this worker
            for work in works:
                await self.report(work.execution, Report(work.fence, (), hand_back=True, grant=work.claim))
            return []
        runnable: list[Work] = []
        leases = [(work.execution, work.fence) for work in works]
        self.terms.grant(leases, requested)
        with self.terms.holding(leases):
            for work in works:
                try:
                    compiled = await self._compiled(work.digest)
                    compiled.plan(work.step)
                    runnable.append(LinkedWork(**msgspec.structs.asdict(work), compiled=compiled))
                except AuthError:
                    raise
                except (NoetlError, msgspec.MsgspecError) as error:
                    reason = Error("internal", f"worker {self.worker} cannot run this step: {error}")
                    failed = StepFailed(work.run, reason)
                    await self.report(work.execution, Report(work.fence, (failed,), grant=work.claim))
        return runnable

    async def _compiled(self, digest: str) -> RunnablePlaybook:
        compiled = self.playbooks.get(digest)
        if compiled is None:
            text = await self.server.call("GET", f"/playbooks/{digest}")
            loaded = load("playbook", text, KINDS, stored=True)
            playbook = loaded.require()
            file = File(playbook.path, "", loaded.places)  # it is on the machine of its author
            compiled = RunnablePlaybook(playbook, file, len(text))
            if compiled.digest != digest:
                raise NoetlError(
                    "this worker compiles the playbook to another digest: run the same version of noetl as the server"
                )
            self.playbooks.add(compiled)
        return compiled

    async def holds(self, execution: str, fence: int) -> bool:
        await self.terms.current((execution, fence))
        return True

    def paused(self, execution: str) -> bool:
        return execution in self.terms.paused

    async def credential(self, execution: str, name: str) -> StoredCredential:
        request = wire.encode(wire.SecretRequest(self.worker, execution, name))
        return wire.decode_as(StoredCredential, await self.server.call("POST", "/secrets", request))
