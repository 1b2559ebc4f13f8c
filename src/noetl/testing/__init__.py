"""For tests of playbooks and tools.

call_tool       call a tool as a worker does
tool_context    the second argument of a tool's `run`, for tests that call it themselves
run_playbook    run a playbook to its end on the real engine, with some tools replaced
check_kind      every fault of a tool kind
ToolSuite       the same as a class of tests for pytest; an Example is a call that it tries
"""

from __future__ import annotations

from noetl.testing.conformance import ToolSuite, check_kind
from noetl.testing.example import Example
from noetl.testing.playbook import Finished, run_playbook
from noetl.testing.tool import call_tool, tool_context

__all__ = ["Example", "Finished", "ToolSuite", "call_tool", "check_kind", "run_playbook", "tool_context"]
