"""Reads the text format of Prometheus, strictly: what is out of place is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,(?:{LABEL}))*)\}})? (?P<value>[0-9.eE+-]+|\+Inf|NaN)")
SUFFIXES = ("_bucket", "_sum", "_count")

Labels = tuple[tuple[str, str], ...]


class Family:
    """A metric with its samples."""

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help, self.kind = name, help, ""
        self.samples: dict[tuple[str, Labels], float] = {}

    def value(self, suffix: str = "", **labels: str) -> float:
        return self.samples[self.name + suffix, tuple(sorted(labels.items()))]


def parsed(text: str) -> dict[str, Family]:
    """The metrics by name. Each has HELP, then TYPE, then its samples, all together; histograms add up."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    current: Family | None = None
    for line in text.splitlines():
        if match := re.fullmatch(rf"# HELP ({NAME}) ([^\n]+)", line):
            assert match[1] not in families, f"{match[1]} comes twice"
            current = families[match[1]] = Family(match[1], match[2])
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert current is not None, line
            assert (current.name, current.kind) == (match[1], ""), line
            current.kind = match[2]
        else:
            assert current is not None, line
            assert current.kind, line
            _sample(current, line)
    for family in families.values():
        _check(family)
    return families


def _sample(family: Family, line: str) -> None:
    match = SAMPLE.fullmatch(line)
    assert match, f"no sample: {line}"
    name, labels = match[1], tuple(sorted(re.findall(LABEL, match[2] or "")))
    allowed = [family.name + suffix for suffix in SUFFIXES] if family.kind == "histogram" else [family.name]
    assert name in allowed, f"{name} stands among the samples of {family.name}"
    assert len({key for key, _ in labels}) == len(labels), f"a label twice: {line}"
    assert (name, labels) not in family.samples, f"twice: {line}"
    family.samples[name, labels] = float(match["value"])


def _check(family: Family) -> None:
    if family.kind == "counter":
        assert family.name.endswith("_total"), family.name
        assert all(value >= 0 for value in family.samples.values())
    if family.kind == "histogram":
        for rest in {_without_bound(labels) for _, labels in family.samples}:
            bounds = sorted(_buckets(family, rest))
            assert [count for _, count in bounds] == sorted(count for _, count in bounds), "buckets must not fall"
            assert bounds[-1] == (float("inf"), family.samples[f"{family.name}_count", rest])
            assert (f"{family.name}_sum", rest) in family.samples


def _buckets(family: Family, rest: Labels) -> Iterator[tuple[float, float]]:
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket") and _without_bound(labels) == rest:
            yield float(dict(labels)["le"]), value


def _without_bound(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != "le")
