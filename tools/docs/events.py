"""The page of events: the envelope and every event type."""

from __future__ import annotations

from collections.abc import Iterator

import noetl.classic.events  # noqa: F401  # adds its events to EVENTS
from noetl.engine.envelope import envelope
from noetl.engine.events import EVENTS, Event, PlaybookStarted
from noetl.model.event_names import OTHER_NAMES
from tools.docs.fields import Field, fields
from tools.docs.markdown import code, codes, page, sentence, table

ENVELOPE = {
    "event_id": "The execution's id, a dot, and `seq`.",
    "seq": "The number of the event in its execution: 1, 2, 3 and so on, without gaps.",
    "event_type": "The name of the event, as on this page.",
    "timestamp": "Time of the decision: RFC 3339, UTC.",
    "source": "Its source: `server` (the engine) or `worker` (accepted from a worker's report).",
    "entity_type": "The type of its subject: `playbook`, `workflow`, `token`, `step`, `next`, `case`, `loop`, `task`, "
    "`sink`, `poll` or `timer`.",
    "entity_id": "The id of its subject: `fetch#1`, `fetch#1[3]`, `fetch#1[3]/save#2`, `token:7`, or the execution's.",
    "parent_id": "The id of the parent of the entity.",
    "status": "`in_progress`, `success`, `error`, `skipped` or `paused`.",
    "execution_id": "The id of the execution.",
    "step_run_id": "The run of the step, such as `fetch#1`.",
    "task_run_id": "The visit of the task, such as `fetch#1[3]/save#2`.",
    "iteration_id": "The item of the loop, such as `fetch#1[3]`.",
    "task_label": "The label of the task.",
    "attempt": "Number of the attempt in the visit, from 1.",
    "action_id": "The same for all attempts and re-grants of one visit; use it as an idempotency key.",
    "trace_id": "The execution id without dashes.",
    "actor": "Who caused it, `{kind, name}`; null if the engine did. `kind` is `user`, `token`, `schedule`, `hook`, "
    "`local` (a command on the database, by a user of the operating system) or `worker` (a claim or a report; null "
    "for a worker in the process of the engine). The worker of a report is that of the `step.started` of its lease.",
    "payload": "The fields of the event that differ from their defaults, listed below.",
}
"""Every field of the envelope that is not an alias, described."""

ALIASES = {
    "name": "`event_type`, written as `StepDone`",
    "ts": "`timestamp`",
    "entity": "`entity_type`",
    "data": "`payload`",
    "workflow_run_id": "`execution_id`",
    "tool_run_id": "`task_run_id`",
    "iteration": "the number of the item, from 0",
    "page": "always null",
}
"""Other names of the same fields, for older playbooks and programs."""

FAMILIES = {
    "playbook": "Playbook",
    "execution": "Forks",
    "workflow": "Workflow",
    "token": "Tokens",
    "step": "Steps",
    "next": "Routing",
    "case": "Branches of classic steps",
    "loop": "Loops",
    "task": "Tasks",
    "sink": "Sinks of classic steps",
    "poll": "Polls of classic steps",
    "ctx": "Shared state",
    "message": "Signals",
    "timer": "Timers",
}
"""Titles by the first word of an event's name."""

MEANINGS = {
    "playbook": "The digest of the playbook, under which the store has its text",
    "path": "The path of the playbook",
    "payload": "The payload of the request or the signal",
    "workload": "The workload of the execution",
    "error": "The error",
    "outcome": "The outcome",
    "result": "The result, or a reference to it",
    "reason": "The reason",
    "token": "The number of the token, from 1",
    "step": "The name of the step",
    "args": "The values that the token carries",
    "run": "The run of the step, such as `fetch#2`",
    "tokens": "The tokens that were taken",
    "fence": "The number of the lease, from 1, in the order of grants",
    "worker": "The worker that got the lease",
    "items": "The items of the lane: first index, and the index after the last",
    "index": "The item, from 0",
    "until": "What the run waits for",
    "due": "Unix time in seconds",
    "task": "The task",
    "attempt": "Number of the attempt, from 1",
    "on": "The boundary event: `step.done`, `loop.done` or `step.failed`",
    "selected": "Indexes of the arcs that fire, in the order of the file, from 0",
    "total": "Number of items",
    "ok": "Number of finished items",
    "failed": "Number of failed items",
    "do": "The directive",
    "set_iter": "Writes to `iter`",
    "set_ctx": "Writes to `ctx`",
    "skipped": "Whether a rule decided `skip`, so that the tool was not called",
    "duration_ms": "Duration of the call",
    "patch": "The writes",
    "spelled": "A part of a stored value that the next patch reads: key, JSON text, and whether more follows",
    "type": "The name of the signal",
    "id": "The id of the signal; a second signal with the same id is a duplicate",
    "timer": "The name of the timer, such as `timeout:fetch#1`",
    "chain": "The chain of a classic step that waits, such as `case_0/`",
    "to": "The target steps, and the args of the tokens",
    "policy": "What the `next` does to other branches: `end_step`, `break_chain` or `defer`",
    "winner_branch": "The branch whose `next` decides",
    "suppressed_branches": "Branches that matched and did not run",
    "matched": "The branches whose condition holds, in the order of the file",
    "order": "The branches that fire, in the order in which their chains run",
    "case_mode": "`exclusive` or `inclusive`",
    "eval_mode": "`on_entry` or `on_event`",
    "trigger_event": "The event that triggered the evaluation",
    "branch": "The branch, such as `case_0`",
    "priority": "Its priority, if several are reached",
    "ready": "Whether the condition held",
    "iterations": "Number of calls",
    "source_id": "The execution that was forked",
}
"""Descriptions of fields that have no docstring in the source."""

INTRO = """The log of an execution is a list of events. An event records a decision: rendered args, chosen arcs,
patches, the directive of the rule that matched. The state of an execution can therefore be computed from its log
without evaluating a template or calling a tool ([event sourcing](../explanation/event-sourcing.md))."""

STORED = """The store keeps the name, the time, the fields that differ from their defaults, and a hash chained to the
event before. An event is at most 64 KiB; larger values in it become
[references](../howto/large-results.md)."""

OTHER = """Filters (`noetl runs events RUN --type TYPE`, `GET /executions/{id}/events?type=TYPE`) and conditions on
`event.name` also accept these names, and every name written as `StepDone`. A filter may end with `.*`: `loop.*`. On an
arc, `step.finished` and `step.exit` are also the end of a loop."""

WRITES = """A list of writes, as in `set_ctx`, has for each write the key, the operator (`=` to set, or a reducer such
as `$add`) and the value. A task id is the run, the path of labels with the number of the visit, and the item's number
if there is a loop."""


def pages() -> Iterator[tuple[str, str]]:
    yield "reference/events.md", _page()


def _page() -> str:
    result = list(envelope("", 1, 0.0, PlaybookStarted()))
    return page(
        "Events",
        INTRO,
        STORED,
        "`noetl runs events RUN` prints the log of a run, `-o jsonl` one envelope per line.",
        table(["Event", "Source", "Meaning"], [_row(kind) for kind in event_types()]),
        "## The envelope",
        "The envelope is the public form of an event. All of it except the payload is derived.",
        table(["Field", "Meaning"], [(code(name), ENVELOPE[name]) for name in result if name not in ALIASES]),
        "Aliases:",
        table(["Alias", "The same as"], [(code(name), ALIASES[name]) for name in result if name in ALIASES]),
        "## Other names",
        OTHER,
        table(["Name", "Events"], [(code(name), codes(OTHER_NAMES[name])) for name in OTHER_NAMES]),
        *_sections(),
    )


def event_types() -> list[type[Event]]:
    return [kind for name, kind in EVENTS.items() if name]


def _row(kind: type[Event]) -> tuple[str, str, str]:
    anchor = kind.name.replace(".", "")
    return f"[`{kind.name}`](#{anchor})", kind.source, description(kind)


def description(kind: type[Event]) -> str:
    """The first paragraph of the docstring of an event."""
    return _lines(kind)[0]


def _lines(kind: type[Event]) -> list[str]:
    """The paragraphs of the docstring of an event."""
    parts = (kind.__doc__ or "").split("\n\n")
    return [" ".join(part.split()) for part in parts]


def _sections() -> Iterator[str]:
    for family, title in FAMILIES.items():
        kinds = [kind for kind in event_types() if kind.name.partition(".")[0] == family]
        yield f"## {title}"
        if any("Patch" in str(kind.__annotations__.values()) for kind in kinds):
            yield WRITES
        for kind in kinds:
            yield f"### {kind.name}"
            yield "\n\n".join(_lines(kind))
            yield f"Source `{kind.source}`, entity `{kind.entity}`, status `{kind.status}`."
            rows = [
                (code(field.name), field.type, "yes" if field.required else "", meaning(field))
                for field in fields(kind)
            ]
            yield table(["Field", "Type", "Always", "Meaning"], rows) if rows else "It has no fields."


def meaning(field: Field) -> str:
    """The description of a field: its docstring in the source, else the one for its name."""
    return sentence(field.note or MEANINGS[field.name]).replace("None", "null")
