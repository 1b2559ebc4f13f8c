"""Readable ids that are derived, not random: the same execution gives the same ids again."""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec

NAME_FORM = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}"
RUN_NUMBER = re.compile(r"[1-9][0-9]{0,14}")


class TaskId(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """A visit of a task: the step run, the iteration if there is a loop, and the path of labels with visits: `save#2`,
    inside an iterator task `each#1[3]/save#1`, in a chain of a classic step `case_0/save#1`."""

    run: str
    path: str
    index: int | None = None

    def __str__(self) -> str:
        return f"{self.run}/{self.path}" if self.index is None else f"{self.run}[{self.index}]/{self.path}"

    @property
    def label(self) -> str:
        return self.path.rpartition("/")[2].rpartition("#")[0]

    @property
    def chain(self) -> str:
        """The part of a classic step that it belongs to, such as `case_0`; empty for the step's own pipeline."""
        first, slash, _ = self.path.partition("/")
        return first if slash and "#" not in first else ""

    @property
    def place(self) -> str:
        """The label as errors name it, with its chain: `case_0/notify`."""
        return f"{self.chain}/{self.label}" if self.chain else self.label


def iteration_id(run: str, index: int | None) -> str:
    """`fetch#1[42]`, or the run itself where there is no loop."""
    return run if index is None else f"{run}[{index}]"


def step_of(run: str) -> str:
    """The step's name of a run such as `fetch#2`."""
    return run.rpartition("#")[0]


def number_of(run: str) -> int:
    """The number of a run such as `fetch#2`; 0 if it is no run: `fetch#02` is not the second one."""
    number = run.rpartition("#")[2]
    return int(number) if RUN_NUMBER.fullmatch(number) else 0


def action_id(execution: str, task: TaskId) -> str:
    """The same over retries and re-grants, different for every visit: what makes an effect idempotent."""
    return sha256(f"{execution}|{task}".encode()).hexdigest()[:32]


def child_id(action: str, attempt: int) -> str:
    """The id of the child execution that an attempt of a `playbook` task starts: requested twice, it is the same."""
    from uuid import UUID  # slow to import, and most processes never start a child

    return str(UUID(bytes=sha256(f"{action}|{attempt}".encode()).digest()[:16], version=5))


def span_id(*parts: str) -> str:
    """The id of the span of something, for traces: 16 hex digits."""
    return sha256("|".join(("span", *parts)).encode()).hexdigest()[:16]


def traceparent(execution: str, action: str, attempt: int) -> str:
    """How a task names its span to whom it calls (W3C Trace Context)."""
    return f"00-{execution.replace('-', '')}-{span_id(action, str(attempt))}-01"


def uuid7(at: float, noise: bytes) -> str:
    """An id that sorts by the time it was made (RFC 9562); `noise` is at least eight random bytes."""
    milliseconds, part = divmod(at * 1000, 1)
    head = (int(milliseconds) << 16) | 0x7000 | int(part * 4096)
    tail = 0x8000_0000_0000_0000 | (int.from_bytes(noise[:8], "big") >> 2)
    return uuid_text(f"{head & (1 << 64) - 1:016x}{tail:016x}")


def uuid_text(digits: str) -> str:
    """The 32 hex digits of an id, with hyphens."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_name(text: str) -> bool:
    """Whether a text can be the name of a user, a schedule or a hook, and so be part of a URL."""
    return re.fullmatch(NAME_FORM, text) is not None
