"""What the requests of all routes share."""

from __future__ import annotations

from typing import Annotated

import msgspec

VersionNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON body; unknown keys are errors."""


class Nothing(RequestBody, frozen=True):
    """An empty object."""


class QueryString(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters; unknown ones are errors."""


def text(description: str) -> msgspec.Meta:
    """A text parameter. Databases cannot store NUL."""
    return msgspec.Meta(pattern=r"^[^\0]*$", description=description)


Cursor = Annotated[str, text("The `next` of the page before this one.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="Maximum number of items.")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="Only items after this number.")]


class Page(QueryString, frozen=True):
    """Which part of a list."""

    cursor: Cursor = ""
    limit: Limit = 100
