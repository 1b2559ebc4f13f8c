"""Prints what slow tests have measured at the end of `make soak`: each `record_property("measured", line)`."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    result = [
        value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "measured"
    ]
    if lines := sorted(set(result)):
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)
