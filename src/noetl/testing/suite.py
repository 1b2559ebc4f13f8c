"""The checks of a tool kind as tests for pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from noetl.testing import conformance
from noetl.testing.conformance import Check
from noetl.testing.example import Example
from noetl.testing.tool import tool_of


class ToolSuite:
    """Derive a class whose name begins with `Test` and give it the tool and some calls that it can make.

    At least one example should go well, one should fail, and one should last, so that it can be cancelled.
    """

    tool: ClassVar[Any]
    """The module of the kind, or the name of an installed one."""
    examples: ClassVar[Sequence[Example]] = ()

    def test_kind_describes_itself(self) -> None:
        self._check(conformance.description)

    def test_worker_can_call_it(self) -> None:
        self._check(conformance.functions)

    def test_every_input_is_documented(self) -> None:
        self._check(conformance.documentation)

    def test_json_schema_of_the_inputs_can_be_made(self) -> None:
        self._check(conformance.json_schema)

    def test_import_is_light(self) -> None:
        self._check(conformance.light_import)

    def test_examples_end_as_expected(self) -> None:
        self._check(conformance.expected)

    def test_outcomes_can_be_stored(self) -> None:
        self._check(conformance.outcomes)

    def test_odd_inputs_give_an_outcome(self) -> None:
        self._check(conformance.odd_inputs)

    def test_errors_show_no_secret(self) -> None:
        self._check(conformance.secrecy)

    def test_call_can_be_cancelled(self) -> None:
        self._check(conformance.cancelling)

    def test_nothing_is_left_behind(self) -> None:
        self._check(conformance.leftovers)

    def test_close_can_be_called_at_any_time(self) -> None:
        self._check(conformance.closing)

    def _check(self, check: Check) -> None:
        faults = list(check(tool_of(self.tool), self.examples))
        assert not faults, "\n".join(faults)
