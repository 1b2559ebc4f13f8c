"""Types that many routes have in common: media, request bodies, query strings, headers and pages."""

from __future__ import annotations

from typing import Annotated, ClassVar, Generic, TypeVar

import msgspec

from noetl.model.status import STATUSES
from noetl.server.roles import FORMS
from noetl.store.store import RunPosition, Summary

JSON = "application/json"
HTML = "text/html"
TEXT = "text/plain"
STREAM = "text/event-stream"
YAML = "application/yaml"
BYTES = "application/octet-stream"
MIB = 1 << 20

Item = TypeVar("Item")
Position = TypeVar("Position", str, int)


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON body; unknown keys are errors."""


class Nothing(RequestBody, frozen=True):
    """An empty object."""


class QueryString(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters; unknown ones are errors. Those that are lists may be repeated, or separated by commas."""

    repeatable: ClassVar[frozenset[str]] = frozenset()


def text(description: str) -> msgspec.Meta:
    """A text parameter. Databases cannot store NUL."""
    return msgspec.Meta(pattern=r"^[^\0]*$", description=description)


VersionNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
CURSOR = "The `next` of the page before this one."
Cursor = Annotated[str, text(CURSOR)]
RunCursor = Annotated[str, msgspec.Meta(description=CURSOR, pattern=rf"^(\d{{1,12}}\.\d{{1,9}}_{FORMS['id']})?(?!\n)$")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="Maximum number of items.")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="Only items after this number.")]


class PageQuery(QueryString, frozen=True):
    cursor: Cursor = ""
    limit: Limit = 100


class RunPageQuery(PageQuery, frozen=True):
    """A page of executions; the cursor is the start and the id of the last one before it."""

    cursor: RunCursor = ""

    @property
    def before(self) -> RunPosition | None:
        return run_position(self.cursor)


def run_position(cursor: str) -> RunPosition | None:
    started, _, execution = cursor.partition("_")
    return RunPosition(float(started), execution) if execution else None


def run_cursor(last: Summary) -> str:
    return f"{last.started!r}_{last.execution_id}"


STATUS = f"(?:{'|'.join(STATUSES)})"
STATUS_LIST = rf"^({STATUS}(,{STATUS})*)?(?!\n)$"
StatusList = Annotated[
    str,
    msgspec.Meta(description=f"Statuses, repeated or separated by commas: {', '.join(STATUSES)}.", pattern=STATUS_LIST),
]


class ItemList(msgspec.Struct, Generic[Item], frozen=True):
    items: list[Item]


class ItemPage(ItemList[Item], Generic[Item, Position], frozen=True):
    next: Position | None


class Header(msgspec.Struct, frozen=True):
    name: str
    description: str
