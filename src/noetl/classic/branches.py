"""The branches of a classic step, compiled: which of them fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.engine.net import guard_test, sees_failure
from noetl.expression import parse
from noetl.model.playbook import Branch, Cases

POINTS = ("call.done", "call.error", "step.exit")
"""Where the branches of a step are evaluated."""
FAILURE_FIELDS = (("error",), ("status",), ("status_code",))


class BranchPlan:
    __slots__ = ("name", "otherwise", "priority", "sees_failure", "test")

    def __init__(self, owner: str, name: str, branch: Branch) -> None:
        self.name, self.priority, self.otherwise = name, branch.priority, branch.when is None
        self.test = guard_test(branch.when)
        self.sees_failure = isinstance(branch.when, str) and any(
            sees_failure(owner, read) or (read.path[0] in ("response", "this") and read.path[1:2] in FAILURE_FIELDS)
            for read in parse(branch.when).reads
        )


class CasePlan:
    def __init__(self, owner: str, cases: Cases) -> None:
        branches = [BranchPlan(owner, f"case_{i}", branch) for i, branch in enumerate(cases.branches)]
        if cases.order == "priority":
            branches.sort(key=lambda branch: -branch.priority)
        self.branches = tuple(branches)
        self.mode, self.evaluate, self.policy = cases.mode, cases.evaluate, cases.next_policy
        self.observes = cases.evaluate == "on_event"
        self.sees_failure = any(branch.sees_failure for branch in branches)

    def chosen(self, scope: Mapping[str, Any], fired: Sequence[str], failed: bool, last: bool) -> list[str]:
        """The branches that fire now. `last`: no evaluation follows, so `else` may fire."""
        if self.mode == "exclusive" and fired:
            return []
        chosen: list[str] = []
        for branch in self.branches:
            if branch.otherwise or branch.name in fired or (failed and not branch.sees_failure):
                continue
            if branch.test(scope):
                chosen.append(branch.name)
                if self.mode == "exclusive":
                    return chosen
        if chosen or fired or failed or not last:
            return chosen
        return [branch.name for branch in self.branches if branch.otherwise][:1]

    def spent(self, fired: Sequence[str]) -> bool:
        """Whether no branch can fire any more."""
        return bool(fired) and (self.mode == "exclusive" or len(fired) == len(self.branches))


def branch_number(name: str) -> int:
    return int(name.rpartition("_")[2])
