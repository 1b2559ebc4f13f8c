"""Times as people and JSON see them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from noetl.timestamps import rfc3339


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-0.001, "1969-12-31T23:59:59.999Z"),
        (1772366400.123, "2026-03-01T12:00:00.123Z"),
        (1772366400.9999, "2026-03-01T12:00:00.999Z"),
        (1772366400.0290001, "2026-03-01T12:00:00.029Z"),
    ],
)
def test_a_time_in_milliseconds_is_cut_and_not_rounded(at: float, text: str) -> None:
    assert rfc3339(at) == text
    assert rfc3339(datetime.fromtimestamp(at, UTC)) == text


def test_every_millisecond_of_a_second_has_its_text() -> None:
    texts = [rfc3339(1772366400 + ms / 1000) for ms in range(1000)]
    assert texts == [f"2026-03-01T12:00:00.{ms:03}Z" for ms in range(1000)]
