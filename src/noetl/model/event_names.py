"""The names of events, and the other names that playbooks and programs use for them (R15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from noetl.errors import UsageError

EVENT_NAMES = frozenset(
    [
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "playbook.processed",
        "playbook.paused", "playbook.resumed", "playbook.cancelled", "execution.forked", "workflow.started",
        "workflow.finished", "token.enqueued", "token.held", "token.denied", "step.scheduled", "step.started",
        "step.regranted", "step.paused", "step.resumed", "step.done", "step.failed", "next.evaluated",
        "next.requested", "case.started", "case.evaluated", "case.branch.suppressed", "loop.started",
        "loop.iteration.started", "loop.iteration.done", "loop.iteration.failed", "loop.done", "task.started",
        "task.done", "task.retry.scheduled", "sink.started", "sink.processed", "poll.started", "poll.iteration",
        "poll.finished", "ctx.patched", "message.received", "timer.armed", "timer.fired",
    ]
)  # fmt: skip
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "token.created": ("token.enqueued",),
    "token.claimed": ("step.scheduled",),
    "step.enter": ("step.started",),
    "step.finished": ("step.done", "step.failed"),
    "step.exit": ("step.done", "step.failed"),
    "tool.started": ("task.started",),
    "tool.processed": ("task.done",),
    "task.processed": ("task.done",),
    "retry.started": ("task.retry.scheduled",),
    "retry.processed": ("task.retry.scheduled",),
    "loop.finished": ("loop.done",),
    "loop.iteration.finished": ("loop.iteration.done", "loop.iteration.failed"),
    "loop.iteration.completed": ("loop.iteration.done", "loop.iteration.failed"),
    "next.selected": ("next.evaluated",),
    "next.enqueued": ("next.evaluated",),
}
"""Names of events in other specifications, each with the names of the events that it matches."""

Stored = Callable[[str], Sequence[str]]
_WORD = re.compile(r"[A-Z][a-z0-9]*")
_TEXT = r"""(?P<{0}>'[^'\\]*'|"[^"\\]*")"""
_COMPARISON = re.compile(
    rf"event\.name\s*(?P<op>==|!=)\s*{_TEXT.format('behind')}"
    rf"|{_TEXT.format('before')}\s*(?P<po>==|!=)\s*event\.name\b"
    r"|(?P<list>event\.name\s+(not\s+)?in\s*)(?P<items>[\[(][^\])]*[\])])"
)
_ITEM = re.compile(r"""'[^'\\]*'|"[^"\\]*\"""")


def dotted(name: str) -> str:
    """`TaskProcessed` as `task.processed`; any other name as it is."""
    words = _WORD.findall(name)
    return ".".join(words).lower() if words and "".join(words) == name else name


def event_names(name: str) -> tuple[str, ...]:
    """The stored names that a name matches; `retry.*` matches all that begin with it. Empty if there is none."""
    name = dotted(name)
    if name in EVENT_NAMES:
        return (name,)
    if name.endswith(".*"):
        family = [other for other in (*EVENT_NAMES, *OTHER_NAMES) if other.startswith(name[:-1])]
        return tuple(sorted({stored for other in family for stored in event_names(other)}))
    return OTHER_NAMES.get(name, ())


def event_filter(names: Iterable[str]) -> frozenset[str]:
    """The stored names of a filter, such as `step.done` or `tool.processed,retry.*`. UsageError for an unknown name."""
    types: set[str] = set()
    for name in (part.strip() for text in names for part in text.split(",")):
        if name and not (stored := event_names(name)):
            from difflib import get_close_matches

            matches = get_close_matches(dotted(name), [*EVENT_NAMES, *OTHER_NAMES], n=1, cutoff=0.7)
            guess = f"did you mean {matches[0]!r}?" if matches else "docs/reference/events.md lists the types"
            raise UsageError(f"unknown event type {name[:100]!r}: {guess}")
        types.update(stored if name else ())
    return frozenset(types)


def end_names(name: str) -> tuple[str, ...]:
    """The stored names for a name on an arc: `step.finished` also matches the end of a loop."""
    names = event_names(name)
    return (*names, "loop.done") if "step.done" in names and dotted(name) != "step.done" else names


def with_equalities(source: str) -> str:
    """A template that compares `event.name` only by `event.name == 'NAME'`, as far as it compares it with texts."""

    def compared(match: re.Match[str]) -> str:
        if match["items"]:
            if re.search(r"[^\s,]", _ITEM.sub("", match["items"][1:-1])):
                return match[0]  # not only texts
            names, equal = _ITEM.findall(match["items"]), "not" not in match["list"]
        else:
            names, equal = [match["behind"] or match["before"]], (match["op"] or match["po"]) == "=="
        text = " or ".join(f"event.name == {name}" for name in names) or "false"
        if not equal:
            return f"(not ({text}))"
        return text if len(names) == 1 else f"({text})"

    return _COMPARISON.sub(compared, source)


def with_event_names(source: str, stored: Stored) -> str:
    """A template whose comparisons of `event.name` have the names that `stored` gives for each name."""
    if "event" not in source:
        return source

    def listed(item: re.Match[str]) -> str:
        name = item[0][1:-1]
        return ", ".join(map(repr, stored(name) or [name]))

    def compared(match: re.Match[str]) -> str:
        if match["items"]:
            items = _ITEM.sub(
                lambda item: ", ".join(map(repr, stored(item[0][1:-1]) or [item[0][1:-1]])), match["items"]
            )
            return match["list"] + items
        name = (match["behind"] or match["before"])[1:-1]
        names = stored(name)
        if not names or list(names) == [name]:
            return match[0]
        equal = (match["op"] or match["po"]) == "=="
        if len(names) == 1:
            return f"event.name {'==' if equal else '!='} {names[0]!r}"
        return f"event.name {'in' if equal else 'not in'} {list(names)!r}"

    return _COMPARISON.sub(compared, source)
