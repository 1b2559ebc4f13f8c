"""For people who test playbooks and tools.

call_tool       one call of a tool, as a worker makes it
tool_context    the second argument of a tool's `run`, for tests that call it themselves
run_playbook    a playbook to its end on the real engine, with tools replaced where the test says so
check_kind      what is wrong with a tool kind, in words
ToolSuite       the same as a class of tests for pytest; an Example is a call that it tries
"""

from __future__ import annotations

from noetl.testing.conformance import check_kind
from noetl.testing.example import Example
from noetl.testing.playbook import Finished, run_playbook
from noetl.testing.suite import ToolSuite
from noetl.testing.tool import call_tool, tool_context

__all__ = ["Example", "Finished", "ToolSuite", "call_tool", "check_kind", "run_playbook", "tool_context"]
