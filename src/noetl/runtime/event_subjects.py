"""The step run and the item of a stored event, without decoding the rest of it."""

from __future__ import annotations

import msgspec

from noetl.errors import Unreadable
from noetl.model.identity import TaskId
from noetl.store.store import Row


class _Subject(msgspec.Struct, gc=False):
    run: str | None = None
    index: int | None = None
    task: TaskId | str | None = None


_decode = msgspec.json.Decoder(_Subject).decode


def subject_of_row(row: Row) -> tuple[str | None, int | None]:
    try:
        subject = _decode(row.data)
    except msgspec.DecodeError as error:
        raise Unreadable(f"cannot read an event of type {row.type!r}: {error}") from None
    if isinstance(subject.task, TaskId):
        return subject.task.run, subject.task.index
    return subject.run, subject.index
