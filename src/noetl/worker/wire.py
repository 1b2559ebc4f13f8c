"""The messages between workers and servers, as JSON.

Facts are encoded as they are stored, each with the name of its event; work is encoded like a snapshot, so references
stay references.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from noetl.engine.commands import Claim, Report
from noetl.errors import NoetlError
from noetl.json_errors import NOT_JSON
from noetl.model.identity import TaskId
from noetl.reference import Reference
from noetl.store import codec
from noetl.store.store import LogLine, WorkerDirective
from noetl.worker.work import Work

CONTENT_BYTES = 64 << 20  # maximum size of one content from a worker, and of one request
MAX_REPORT_FACTS = 30_000  # maximum number of events, and of contents, in one report
MAX_PATH_CHARACTERS = 2_000  # maximum characters of a task path
LARGEST = 2**53  # exclusive upper limit of fences and counts
PREVIEW_BYTES = 8_192

Message = TypeVar("Message")
Verdict = Literal["accepted", "duplicate", "rejected"]
"""Of a report: accepted; a repeated report, stored once; or rejected and not stored, because the worker does not hold
the lease or the facts do not follow from it."""

HASH = re.compile(r"[0-9a-f]{64}")
PATH = re.compile(r"(?:[^/#]+/)?(?:[^/]+#[0-9]{1,9}\[[0-9]{1,9}\]/)*[^/]+#[0-9]{1,9}")
"""A task with its visit, inside of items of iterator tasks, in a chain: `case_0/each#1[3]/save#1`."""


class BadMessage(NoetlError):
    """A message that is not of the protocol."""


class ClaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: str
    pool: str
    slots: int
    claim_id: str = ""
    wait: float = 0.0  # seconds that the server waits for work
    again: bool = False  # whether the claim was sent before without an answer


class ReportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    execution: str
    fence: int
    facts: list[tuple[str, msgspec.Raw]] = []
    first: int = 0
    claim: ClaimRequest | None = None
    hand_back: bool = False
    blobs: list[tuple[str, str]] = []
    lines: list[LogLine] = []  # output of tasks of the worker, stored before the facts
    grant: str | None = None  # the id of the claim that the lease was granted to; older workers do not send it


class Verdicts(msgspec.Struct, frozen=True):
    verdict: Verdict
    held: bool = False  # whether the worker still holds the lease
    works: list[msgspec.Raw] = []


class HeartbeatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: str
    pool: str
    slots: int
    leases: dict[str, list[int]] = {}
    host: str = ""
    started: float = 0.0
    version: str = ""
    lines: list[LogLine] = []  # output of its tasks since the last heartbeat
    number: int = 0  # counts the heartbeats of the process
    replaces: float | None = None
    """`started` of the process that this one replaces, as a reply has named it; 0 if none has. None after the first
    heartbeat that was recorded."""


class SecretRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: str
    execution: str
    name: str


class HeartbeatReply(msgspec.Struct, frozen=True):
    revoked: list[tuple[str, int]] = []
    paused: list[str] = []
    directive: WorkerDirective = ""
    holder: float | None = None
    """`started` of another process that holds the name: nothing was recorded. A process that is new replaces it by
    naming it in `replaces`, which a heartbeat from before its time cannot."""


def encode_work(work: Work) -> msgspec.Raw:
    return msgspec.Raw(codec.encode_value(codec.plain(work)))


def decode_work(data: bytes | msgspec.Raw) -> Work:
    try:
        return msgspec.convert(codec.decode_value(bytes(data)), Work, str_keys=True)
    except NOT_JSON as error:
        raise BadMessage(f"invalid work: {error}") from None


def report_request(execution: str, report: Report, lines: Sequence[LogLine] = ()) -> ReportRequest:
    claim = report.claim
    return ReportRequest(
        execution,
        report.fence,
        [(fact.name, msgspec.Raw(codec.encode(fact))) for fact in report.facts],
        report.first,
        None if claim is None else ClaimRequest(claim.worker, claim.pool or "", claim.slots, claim.id),
        report.hand_back,
        [(key, b64encode(content).decode()) for key, content in report.blobs],
        list(lines),
        report.grant,
    )


def report_of(request: ReportRequest) -> Report:
    claim = request.claim
    if not (0 <= request.fence <= LARGEST and 0 <= request.first <= LARGEST):
        raise BadMessage("`fence` or `first` is out of range")
    try:
        facts = tuple(codec.decode(name, bytes(data)) for name, data in request.facts)
        blobs = tuple((key, b64decode(content, validate=True)) for key, content in request.blobs)
    except (NoetlError, ValueError) as error:
        raise BadMessage(f"invalid report: {error}") from None
    for fact in facts:  # the engine checks it against the lease later
        if fact.source != "worker" and fact.name != "step.paused":
            raise BadMessage(f"workers must not report {fact.name}")
        task = getattr(fact, "task", None)
        if isinstance(task, TaskId) and (len(task.path) > MAX_PATH_CHARACTERS or PATH.fullmatch(task.path) is None):
            raise BadMessage(f"{fact.name}: {task.path[:100]!r} is not the path of a task")
    return Report(
        request.fence,
        facts,
        request.first,
        None if claim is None else Claim(claim.worker, claim.slots, claim.pool, claim.claim_id),
        request.hand_back,
        blobs,
        foreign=True,
        grant=request.grant,
    )


def references_in(value: Any) -> Iterator[Reference]:
    """All references in an event, or in a part of one; BadMessage for an invalid one."""
    if isinstance(value, Reference):
        _check_reference(value)
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from references_in(getattr(value, name))
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references_in(item)


def _check_reference(reference: Reference) -> None:
    texts = (reference.store, reference.key, reference.checksum, reference.schema_hint)
    sized = type(reference.size) is int and 0 <= reference.size <= LARGEST
    if not sized or not all(isinstance(text, str) and len(text) <= MAX_PATH_CHARACTERS for text in texts):
        raise BadMessage("invalid reference: store, key, checksum and hint must be short strings")
    if len(codec.encode_value(reference.preview)) > PREVIEW_BYTES:
        raise BadMessage(f"invalid reference: the preview is larger than {PREVIEW_BYTES:,} bytes")
    hashed = HASH.fullmatch(reference.digest) is not None and reference.checksum == f"sha256:{reference.digest}"
    if not hashed and not reference.is_secret:
        raise BadMessage("invalid reference: the key does not end with the hash of the content")


encode = msgspec.json.encode


def decode_as(kind: type[Message], data: bytes) -> Message:
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_JSON as error:
        raise BadMessage(f"the response is not one of a noetl server ({error}); check the address") from None


def decode_works(data: bytes) -> list[Work]:
    return [decode_work(work) for work in decode_as(list[msgspec.Raw], data)]
