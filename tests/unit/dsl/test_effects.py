"""Every key has a reader, or a message that it has no effect where it stands (R11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.classic.language import CHAIN_TASK, ROOT
from noetl.dsl.checks.effects import WITHOUT_PROCESS
from noetl.dsl.compile import load
from noetl.dsl.shape import Fields, ListOf, MapOf, OneOf, Shape
from noetl.tools.registry import BUILTIN, KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\n"
CALL = "tool: [{a: {kind: noop}}]"
NEXT = "next: {arcs: [{step: t}]}"
DONE = "- {when: \"{{ event.name == 'call.done' }}\", then: {next: t}}"
SOURCE = Path(__file__).parents[3] / "src" / "noetl"


def problems_in(text: str) -> list[tuple[str, str]]:
    problems = load("x.yaml", HEAD + text, KINDS).problems
    assert [problem for problem in problems if problem.severity == "error"] == []
    return [(problem.code, problem.message) for problem in problems if problem.code in ("NTL118", "NTL406")]


def step(*lines: str, head: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}workflow:\n  - step: s\n{body}  - {{step: t, tool: {{kind: noop}}}}\n"


CANONICAL = {
    "sandbox of http": ("sandbox", ["tool: [{a: {kind: http, url: http://x, spec: {sandbox: landlock}}}]"]),
    "sandbox of noop": ("sandbox", ["tool: [{a: {kind: noop, spec: {sandbox: none}}}]"]),
    "sandbox of all http calls": (
        "sandbox",
        ["spec: {http: {sandbox: landlock}}", "tool: [{a: {kind: http, url: http://x}}]"],
    ),
    "timers": ("timers", ["spec: {timers: {late: 5s}}", CALL]),
    "pool of a task": ("pool", ["tool: [{a: {kind: noop, spec: {pool: big}}}]"]),
    "sequential loop": ("max_in_flight", ["loop: {in: [1], iterator: n, spec: {max_in_flight: 3}}", CALL]),
    "sequential iterator": (
        "max_in_flight",
        ["tool: [{a: {kind: iterator, in: [1], iterator: n, spec: {max_in_flight: 2}, tool: [{b: {kind: noop}}]}}]"],
    ),
    "retry of an iterator": (
        "retry",
        ["tool: [{a: {kind: iterator, in: [1], iterator: n, spec: {retry: 2}, tool: [{b: {kind: noop}}]}}]"],
    ),
    "retry of noop": ("retry", ["tool: [{a: {kind: noop, spec: {retry: 2}}}]"]),
    "retry of wait": ("retry", ["tool: [{a: {kind: wait, signal: go, spec: {retry: {attempts: 3}}}}]"]),
    "retry of a step of noops": ("retry", ["spec: {retry: 2}", "tool: [{a: {kind: noop}}, {b: {kind: noop}}]"]),
    "sandbox of a step without processes": ("sandbox", ["spec: {sandbox: landlock}", CALL]),
    "sandbox of a loop without processes": ("sandbox", ["loop: {in: [1], iterator: n, spec: {sandbox: none}}", CALL]),
    "defaults of a kind in a step": ("http", ["spec: {http: {timeout: 3}}", CALL]),
    "defaults of a kind in a loop": ("http", ["loop: {in: [1], iterator: n, spec: {http: {timeout: 3}}}", CALL]),
    "network of no sandbox": (
        "network",
        ["tool: [{a: {kind: python, code: 'result = 1', spec: {sandbox: {kind: none, network: false}}}}]"],
    ),
    "read of no sandbox of a step": (
        "read",
        ["spec: {sandbox: {kind: none, read: [/data], processes: 5}}", "tool: [{a: {kind: shell, command: ls}}]"],
    ),
    "write of no sandbox of a kind": (
        "write",
        ["spec: {shell: {sandbox: {kind: none, write: [/data]}}}", "tool: [{a: {kind: shell, command: ls}}]"],
    ),
    "timeout of a step without tasks": ("timeout", ["spec: {timeout: 3}", NEXT]),
    "pool of a step without tasks": ("pool", ["spec: {pool: big}", NEXT]),
    "retry of a loop without tasks": ("retry", ["loop: {in: [1], iterator: n, spec: {retry: 3}}", NEXT]),
    "async": ("async", ["tool: [{a: {kind: noop, spec: {async: true}}}]"]),
}
CLASSIC = {
    "cache": ("cache", ["tool: {kind: noop}", "case:", "- {when: true, spec: {cache: true}, then: {next: t}}"]),
    "eval_mode": ("eval_mode", ["spec: {eval_mode: on_event}", "tool: {kind: noop}", "next: t"]),
    "case_mode": ("case_mode", ["spec: {case_mode: inclusive}", "tool: {kind: noop}", "next: t"]),
    "branch_order": ("branch_order", ["spec: {branch_order: priority}", "tool: {kind: noop}", "next: t"]),
    "next_policy": ("next_policy", ["spec: {next_policy: defer}", "tool: {kind: noop}", "next: t"]),
    "scope of a step": ("scope", ["tool: {kind: noop}", "retry: {scope: chain}", "next: t"]),
    "scope of a task": ("scope", ["tool: {kind: noop, retry: {scope: chain}}", "next: t"]),
    "scope of a call in a chain": (
        "scope",
        ["tool: {kind: noop}", "case:", "- {when: true, then: [{a: {tool: {kind: noop}, retry: {scope: chain}}}]}"],
    ),
    "scope of a branch without tools": (
        "scope",
        ["tool: {kind: noop}", "case:", "- {when: true, then: {retry: {scope: chain}}}"],
    ),
    "scope step beside tools": (
        "scope",
        ["tool: {kind: noop}", "retry: {scope: step}", "case:", "- {when: true, then: [{a: {tool: {kind: noop}}}]}"],
    ),
    "scope step of a listener": (
        "scope",
        ["spec: {eval_mode: on_event}", "tool: {kind: noop}", "retry: {scope: step}", "case:", DONE],
    ),
    "initial_delay": (
        "initial_delay",
        ["tool: {kind: noop}", "retry: {initial_delay: 2, backoff: {delay_seconds: 3}}", "next: t"],
    ),
    "retry in else": ("retry", ["tool: {kind: noop}", "case:", "- {else: {retry: {max_attempts: 2}}}"]),
    "retry without a call": ("retry", ["case:", "- {when: true, then: {retry: {max_attempts: 2}, next: t}}"]),
    "timers that nobody hears": ("timers", ["spec: {timers: {late: 5s}}", "tool: {kind: noop}", "case:", DONE]),
    "a timer that no branch expects": (
        "late",
        [
            "spec: {eval_mode: on_event, timers: {late: 5s, soon: 1s}}",
            "case:",
            "- {when: \"{{ event.name == 'timer.fired' and event.data.timer_id == 'soon' }}\", then: {next: t}}",
        ],
    ),
    "batch_size": ("batch_size", ["loop: {in: [1], iterator: n, spec: {batch_size: 3}}", "tool: {kind: noop}"]),
}


@pytest.mark.parametrize("case", [*CANONICAL, *CLASSIC])
def test_a_key_without_effect_is_reported(case: str) -> None:
    key, lines = (CANONICAL | CLASSIC)[case]
    ((code, message),) = problems_in(step(*lines))
    assert (code, message.partition(":")[0]) == ("NTL118", f"{key!r} has no effect")


def test_defaults_of_a_kind_that_no_task_has_are_reported() -> None:
    head = "executor: {spec: {http: {timeout: 3}, sandbox: {kind: none, network: false}, noop: {timeout: 3}}}\n"
    keys = [message.partition(" has no effect")[0] for _, message in problems_in(step(CALL, head=head))]
    assert keys == ["'http'", "'network'"]
    book = "workbook: {get: {kind: http, url: http://x}}\n"
    assert problems_in(step("spec: {http: {timeout: 3}}", "tool: {kind: workbook, name: get}", head=book)) == []


def test_a_guard_on_a_timer_that_no_step_has_is_reported() -> None:
    guard = "{{ event.name == 'timer.fired' and event.data.timer_id == 'latte' }}"
    lines = ["spec: {eval_mode: on_event}", "case:", f'- {{when: "{guard}", then: {{next: t}}}}']
    assert problems_in(step(*lines)) == [
        ("NTL406", "event.data.timer_id is never 'latte' here: no step has such a timer"),
    ]


def test_a_limit_above_64_kib_is_reported() -> None:
    head = "executor: {spec: {policy: {limits: {max_payload_bytes: 1048576}}}}\n"
    ((_, message),) = problems_in(step(CALL, head=head))
    assert message == "'max_payload_bytes' has no effect: values above 65,536 bytes are stored by reference anyway"
    assert problems_in(step(CALL, head=head.replace("1048576", "65536"))) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["tool: [{a: {kind: python, code: 'result = 1', spec: {sandbox: landlock}}}]"],
        ["spec: {sandbox: landlock, python: {timeout: 3}}", "tool: [{a: {kind: python, code: 'result = 1'}}]"],
        ["spec: {timeout: 5s, pool: big}", "case:", "- {when: true, then: [{a: {tool: {kind: noop}}}]}"],
        ["spec: {http: {timeout: 3}}", "tool: {kind: noop}", "sink: {tool: {kind: http, url: http://x}}"],
        [
            "spec: {timeout: 5s, eval_mode: on_event}",
            "case:",
            "- {when: \"{{ event.name == 'message.received' }}\", then: {next: t}}",
        ],
        ["loop: {in: [1], iterator: n, spec: {mode: parallel, max_in_flight: 3}}", CALL],
        ["loop: {in: [1], iterator: n, mode: parallel, spec: {batch_size: 3}}", "tool: {kind: noop}"],
        ["tool: {kind: noop}", "retry: {scope: step}", "next: t"],
        [
            "spec: {branch_order: priority}",
            "tool: {kind: noop}",
            "case:",
            "- {when: true, priority: 2, then: {next: t}}",
        ],
        ["tool: {kind: noop}", "case:", "- {when: true, retry: {scope: chain}, then: [{a: {tool: {kind: noop}}}]}"],
        [
            "spec: {eval_mode: on_event, timers: {late: 5s}}",
            "case:",
            "- {when: \"{{ event.name == 'timer.fired' }}\", then: {next: t}}",
        ],
    ],
)
def test_a_key_with_effect_is_quiet(lines: list[str]) -> None:
    assert problems_in(step(*lines)) == []


@pytest.mark.parametrize(
    ("executor", "where"),
    [
        ("{profile: local}", "local"),
        ("{kind: local}", "local"),
        ("{profile: distributed}", "distributed"),
        ("{}", "distributed"),
    ],
)
def test_the_profile_is_the_default_of_loops(executor: str, where: str) -> None:
    head = f"executor: {executor}\n"
    lines = ["loop: {in: [1], iterator: n}", CALL]
    loop = load("x.yaml", HEAD + step(*lines, head=head), KINDS).require().steps[0].loop
    assert loop is not None
    assert loop.exec == where
    own = ["loop: {in: [1], iterator: n, spec: {policy: {exec: distributed}}}", CALL]
    loop = load("x.yaml", HEAD + step(*own, head=head), KINDS).require().steps[0].loop
    assert loop is not None
    assert loop.exec == "distributed"


def test_every_kind_starts_processes_or_is_listed() -> None:
    assert set(BUILTIN) - WITHOUT_PROCESS == {"python", "shell", "script", "workbook"}


def keys_of(shape: Shape, seen: set[int]) -> Iterator[str]:
    if id(shape) in seen:
        return
    seen.add(id(shape))
    match shape:
        case Fields():
            for field in shape.fields.values():
                yield field.key
                yield from keys_of(field.shape, seen)
        case ListOf():
            yield from keys_of(shape.item, seen)
        case MapOf():
            yield from keys_of(shape.value, seen)
        case OneOf():
            for form in shape.forms:
                yield from keys_of(form.shape, seen)
        case _:
            for part in vars(shape).values():
                for inner in part.values() if isinstance(part, dict) else [part]:
                    if isinstance(inner, Shape):
                        yield from keys_of(inner, seen)


def test_every_key_of_the_language_has_a_reader() -> None:
    described = {SOURCE / "dsl" / "document.py", SOURCE / "classic" / "language.py", SOURCE / "dsl" / "part_shapes.py"}
    source = "\n".join(file.read_text("utf-8") for file in SOURCE.rglob("*.py") if file not in described)
    keys = {key for shape in (ROOT, CHAIN_TASK) for key in keys_of(shape, set())}
    assert {"retry_when", "max_in_flight", "deadline", "eval_mode", "set_ctx", "inline_bytes"} <= keys
    unread = {key for key in keys if not re.search(rf"""["'.]{key}\b|\b{key}\s*[:=]""", source)}
    assert unread == set()


@pytest.mark.parametrize(
    ("inputs", "column", "words"),
    [
        ("signals: []", 33, "'signals' of wait: expected a list with an item, found an empty list"),
        ("signals: [a, '']", 37, "'signals[1]' of wait: expected text, found an empty text"),
        ("signal: ''", 32, "'signal' of wait: expected text, found an empty text"),
    ],
)
def test_a_wait_for_no_signal_is_an_error(inputs: str, column: int, words: str) -> None:
    text = f"{HEAD}workflow:\n  - step: s\n    tool: {{kind: wait, {inputs}}}\n"
    (problem,) = load("x.yaml", text, KINDS).problems
    assert (problem.code, problem.line, problem.column, problem.message) == ("NTL205", 6, column, words)
    assert problem.hint in ("add an item", "write a value, or remove the key")


@pytest.mark.parametrize(
    ("step", "database", "problems"),
    [
        ("", "", ["needs a `database` file"]),
        ("", "database: ':memory:', ", ["needs a `database` file"]),
        ("", "database: a.duckdb, read_only: true, ", ["is `read_only`"]),
        ("", "database: '{{ workload.file }}', ", []),
        ("spec: {duckdb: {database: a.duckdb}}", "", []),
    ],
)
def test_exactly_once_needs_a_file_for_its_ledger(step: str, database: str, problems: list[str]) -> None:
    task = f"{{kind: duckdb, {database}query: 'INSERT INTO t VALUES (1)', spec: {{exactly_once: true}}}}"
    text = f"{HEAD}workload: {{file: a}}\nworkflow:\n  - step: s\n    {step}\n    tool: [{{a: {task}}}]\n"
    reported = load("x.yaml", text, KINDS).problems
    assert [problem.code for problem in reported] == ["NTL316"] * len(problems)
    assert all(words in problem.message and problem.hint for words, problem in zip(problems, reported, strict=True))
