"""Whether the guards of a policy take every error is decided without evaluating them."""

from __future__ import annotations

from tests.table import for_each

from noetl.expression import may_take_error, some_error_passes

STATUS = "outcome.status == 'error'"


@for_each(
    "guards",
    [
        [STATUS],
        ["outcome.status != 'ok'"],
        ["not outcome.status == 'ok'"],
        ["outcome.status in ['error', 'late']"],
        ["outcome.error"],
        ["outcome.error is defined"],
        ["outcome.error is not none"],
        ["outcome.error != none"],
        ["ctx.a", f"{STATUS} or ctx.b"],
        [f"{STATUS} and outcome.error.retryable", f"{STATUS} and not outcome.error.retryable"],
        ["outcome.status == 'ok' and ctx.a", STATUS],
        ["true"],
        [f"ctx.k{i}" for i in range(20)],
    ],
)
def test_every_error_is_taken_or_it_cannot_be_told(guards: list[str]) -> None:
    assert not some_error_passes(f"{{{{ {guard} }}}}" for guard in guards)


@for_each(
    "guards",
    [
        [],
        ["outcome.http.status in [429, 503]"],
        ["outcome.http.status >= 400", "outcome.http.status < 400"],
        [f"{STATUS} and outcome.error.retryable"],
        ["outcome.status == 'ok'"],
        ["outcome.error is none"],
        ["false"],
        ["ctx.a", "not ctx.b"],
    ],
)
def test_some_error_passes(guards: list[str]) -> None:
    assert some_error_passes(f"{{{{ {guard} }}}}" for guard in guards)


def test_a_guard_that_can_take_an_error() -> None:
    assert may_take_error("{{ outcome.http.status == 404 }}")
    assert not may_take_error("{{ outcome.status == 'ok' and outcome.result.more }}")
    assert not may_take_error("{{ ctx.a }}")
