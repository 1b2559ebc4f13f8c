"""Rules of a policy: `else` and directives without `then`, and `backoff: fixed`; the backoff of classic retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.classic.nodes import as_list, as_map, map_at, part_of, rename_key
from noetl.dsl.document import TASK_THEN
from noetl.dsl.tree import Map, Seq
from noetl.generations.document import OtherDocument, rules, thens

PATCHES = frozenset(["set", "set_ctx", "set_iter"])
THEN_KEYS = frozenset([*TASK_THEN.fields, "allow", "set"])


def wrap_rules(document: OtherDocument) -> None:
    for rule in _all_rules(document):
        if "else" in rule:
            body = rule["else"]
            if "then" in rule and not body:  # `- else:` above `then:`
                rule["else"] = part_of(rule, ["then"])
                del rule["then"]
            elif isinstance(body, Map) and "then" not in body and set(body) & {"do", "allow", *PATCHES}:
                rule["else"] = map_at(body, then=body)
            continue
        directive = [key for key in rule if key in THEN_KEYS]
        if directive and "then" not in rule:
            then = part_of(rule, directive)
            for key in directive:
                del rule[key]
            rule["then"] = then
    for task in document.all_tasks:
        for then in thens(task.tree):
            if "do" not in then and set(then) & PATCHES:
                pairs = list(then.items())
                then.clear()
                then.update({"do": "continue", **dict(pairs)})
        for holder in (*thens(task.tree), as_map(as_map(task.tree.get("spec")).get("retry"))):
            if holder.get("backoff") == "fixed":
                holder["backoff"] = "none"


def _all_rules(document: OtherDocument) -> Iterator[Map]:
    for task in document.all_tasks:
        yield from rules(task.tree)
    for step in document.steps:
        admit = as_map(as_map(as_map(step.get("spec")).get("policy")).get("admit"))
        yield from (rule for rule in as_list(admit.get("rules")) if isinstance(rule, Map))


def rewrite_retries(document: OtherDocument) -> None:
    """`backoff: exponential` and `max_delay` of a classic retry become its map `backoff`."""
    for retry in _retries(document.root["workflow"]) if document.is_classic else ():
        for old, new in (("attempts", "max_attempts"), ("delay", "initial_delay")):
            if old in retry and new not in retry:
                rename_key(retry, old, new)
        if isinstance(retry.get("backoff"), str) or ("max_delay" in retry and "backoff" not in retry):
            growth = "fixed" if retry.get("backoff") == "none" else retry.get("backoff", "exponential")
            delays = {
                "delay_seconds": retry.pop("initial_delay", None),
                "max_delay_seconds": retry.pop("max_delay", None),
            }
            retry["backoff"] = map_at(retry, {"type": growth, **delays})


def _retries(node: Any) -> Iterator[Map]:
    for key, value in node.items() if isinstance(node, Map) else enumerate(node) if isinstance(node, Seq) else ():
        if key == "retry" and isinstance(value, Map):
            yield value
        yield from _retries(value)
