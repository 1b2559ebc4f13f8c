"""A call to try, and the same call with values that nobody would write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.testing.tool import secrets_of

ODD_TEXTS = ("", " ", "\0", "{{ x }}", "'; --", "../..", "x" * 100_000)
LONG_ENOUGH = 12
"""A secret that is shorter may stand in a text by chance, and half of it does."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A call to try. It is made several times, so its effects must bear that."""

    inputs: dict[str, Any] = {}
    context: dict[str, Any] = {}
    """Fields of the context, such as `args`."""
    credentials: dict[str, dict[str, Any]] = {}
    """What `auth` can name. Texts in it are secrets, and no error may show one."""
    error: str | None = None
    """The kind of error that the call is to end with; None where it goes well."""
    lasts: bool = False
    """Whether the call takes long enough to be cancelled: ten seconds or more. Such a call is only ever cancelled."""

    @property
    def secrets(self) -> list[str]:
        """The texts of the credentials that must never be shown."""
        return [secret for secret in secrets_of(self.credentials) if len(secret) >= LONG_ENOUGH]


def odd_variants(example: Example) -> Iterator[tuple[str, Example]]:
    """The example with an unknown key, without each of its inputs, and with odd values for each that is a text."""
    inputs = example.inputs
    yield " with an unknown key", _with(example, {**inputs, "no_such_input": 1})
    for name, value in inputs.items():
        yield f" without {name!r}", _with(example, {key: value for key, value in inputs.items() if key != name})
        yield f" with a list of lists for {name!r}", _with(example, {**inputs, name: [[[]]]})
        if isinstance(value, str):
            for odd in ODD_TEXTS:
                yield f" with {name}={odd[:20]!r}", _with(example, {**inputs, name: odd})


def _with(example: Example, inputs: dict[str, Any]) -> Example:
    return msgspec.structs.replace(example, inputs=inputs)
