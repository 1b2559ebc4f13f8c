"""Media types of content: `application/json; charset=utf-8`."""

from __future__ import annotations


def media_of(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media in ("application/json", "text/json") or media.endswith("+json")
