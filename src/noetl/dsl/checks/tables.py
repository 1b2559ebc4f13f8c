"""Tables that tasks write into. Checked on the model, where defaults, and args of calls of the workbook, are merged."""

from __future__ import annotations

from noetl.dsl.checks.net import Report
from noetl.dsl.inputs import WRONG_INPUT
from noetl.dsl.shape import KindSource
from noetl.model.inputs import fields
from noetl.model.playbook import Playbook

HINT = "add `rows:`, a list of maps, or `args:` for one row"


def check(playbook: Playbook, kinds: KindSource, report: Report) -> None:
    for step in playbook.steps:
        for place, task in step.every_task:
            kind = kinds.get(task.kind) if "table" in task.inputs else None
            if kind and "rows" in fields(kind.inputs) and "rows" not in task.inputs and not task.args:
                report(WRONG_INPUT, place, f"'table' of {kind.name}: there are no rows to write", HINT, [])
