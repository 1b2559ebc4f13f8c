"""Rules of a policy: `else` and directives without `then`, and `backoff: fixed`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.classic.nodes import as_list, as_map, map_at, part_of
from noetl.dsl.document import TASK_THEN
from noetl.dsl.tree import Map
from noetl.generations.document import OtherDocument, rules, thens

THEN_KEYS = frozenset([*TASK_THEN.fields, "allow", "set"])


def wrap_rules(document: OtherDocument) -> None:
    for rule in _all_rules(document):
        if "else" in rule:
            body = rule["else"]
            if "then" in rule and not body:  # `- else:` above `then:`
                rule["else"] = part_of(rule, ["then"])
                del rule["then"]
            elif isinstance(body, Map) and "then" not in body and set(body) & {"do", "allow"}:
                rule["else"] = map_at(body, then=body)
            continue
        directive = [key for key in rule if key in THEN_KEYS]
        if directive and "then" not in rule:
            then = part_of(rule, directive)
            for key in directive:
                del rule[key]
            rule["then"] = then
    for task in document.all_tasks:
        for holder in (*thens(task.tree), as_map(as_map(task.tree.get("spec")).get("retry"))):
            if holder.get("backoff") == "fixed":
                holder["backoff"] = "none"


def _all_rules(document: OtherDocument) -> Iterator[Map]:
    for task in document.all_tasks:
        yield from rules(task.tree)
    for step in document.steps:
        admit = as_map(as_map(as_map(step.get("spec")).get("policy")).get("admit"))
        yield from (rule for rule in as_list(admit.get("rules")) if isinstance(rule, Map))
