"""Every promise of a log, and a log that breaks it: true logs hold, and each change below is found by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import msgspec
import pytest
from story import EXECUTION, HEAD, QuickClock
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS
from tests.verifying import verify

from noetl.classic.events import BranchSuppressed, CaseEvaluated, NextRequested
from noetl.classic.rules import ClassicRules
from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine.commands import Cancel, Command
from noetl.engine.evolve import evolve
from noetl.engine.history.verify import INVARIANTS
from noetl.engine.history.verify.log import Frozen, Violation, differences
from noetl.engine.history.verify.rows import MAX_EVENT_BYTES
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.host.embedded import Embedded
from noetl.model.identity import TaskId
from noetl.model.outcome import Error
from noetl.reference import refer
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store import codec
from noetl.store.codec import freeze, thaw
from noetl.store.store import Derived, Leased, Row
from noetl.tools.registry import KINDS

Events = list[tuple[e.Event, float]]

CHAIN = """
- step: start
  tool: {kind: noop, result: 1}
  next: {arcs: [{step: end}]}
- step: end
  tool: {kind: noop, result: 2}
"""
FORK = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: both}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: both}]}}
- {step: both, spec: {join: all}, tool: {kind: noop}}
"""
RETRY = """
- step: start
  tool:
    - call:
        kind: noop
        result: "{{ _attempt }}"
        spec:
          policy:
            rules:
              - {when: "{{ outcome.result < 3 }}", then: {do: retry, attempts: 5, delay: 0}}
              - {else: {then: {do: continue, set_ctx: {got: "{{ outcome.result }}"}}}}
"""
LOOP = """
- step: start
  loop: {in: "{{ [10, 20, 30, 40] }}", iterator: x, spec: {mode: MODE, max_in_flight: 2}}
  tool:
    - note:
        kind: noop
        result: "{{ iter.x }}"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ iter.x }}"}}}}}]}}
"""
SEQUENTIAL = LOOP.replace("MODE, max_in_flight: 2", "sequential")
PARALLEL = LOOP.replace("MODE", "parallel")
CASE = """
- step: start
  tool: {kind: noop, result: 1}
  case: [{when: "{{ result == 1 }}", then: {next: end}}, {when: "{{ true }}", then: {next: end}}]
- {step: end, tool: {kind: noop}}
"""
HELD = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: gated}, {step: other}]}
- step: gated
  spec: {policy: {admit: {rules: [{when: "{{ ctx.open | default(false) }}", then: {allow: true}}]}}}
  tool: {kind: noop}
- {step: other, tool: {kind: noop}}
"""
NESTED = """
- step: start
  loop: {in: "{{ [1, 2] }}", iterator: y}
  tool:
    - each:
        kind: iterator
        in: "{{ [1, 2] }}"
        iterator: x
        tool:
          - save: {kind: noop, result: "{{ iter.x }}"}
          - deeper:
              kind: iterator
              in: "{{ [3] }}"
              iterator: z
              tool: [{note: {kind: noop}}]
        spec:
          policy:
            rules:
              - {when: "{{ _attempt < 3 }}", then: {do: retry, attempts: 3, delay: 0}}
              - {else: {then: {do: continue}}}
"""
FAILING = """
- step: start
  tool: {kind: noop, result: "{{ 1 / 0 }}"}
"""
LARGE = """
- step: start
  tool: {kind: noop, result: "{{ 'x' * 100000 }}"}
"""
TRUE = [CHAIN, FORK, NESTED, RETRY, SEQUENTIAL, PARALLEL, HELD, FAILING, LARGE]


class Story:
    """A playbook that was run, and its log, which can be changed and looked at."""

    def __init__(self, workflow: str, *commands: Command) -> None:
        text = HEAD + "workflow:\n" + indent(dedent(workflow), "  ")
        playbook = load("story.yaml", text, KINDS).require()
        self.net, self.store = Net(playbook, ClassicRules), MemoryStore()
        asyncio.run(self._run(playbook, commands))
        self.rows = self.store.read(EXECUTION)
        self.status = self.store.runs[EXECUTION].status

    async def _run(self, playbook: Any, commands: tuple[Command, ...]) -> None:
        engine = Embedded(LoadedPlaybooks(self.store), KINDS, QuickClock(), lambda parent, request: "")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await engine.start(EXECUTION, engine.runtime.playbooks.add(playbook), {}, {})
            for command in commands:
                await engine.runtime.committer.handle(EXECUTION, command)
            await engine.drive(EXECUTION)
        await engine.close()

    @property
    def events(self) -> Events:
        return [(codec.decode(row.type, row.data), row.at) for row in self.rows]

    def violations(self, rows: list[Row] | None = None, status: str | None = None) -> list[Violation]:
        rows = self.rows if rows is None else rows
        return verify(EXECUTION, rows, self.net, lambda store, key: self.store.blob(key), status)

    def broken(self, events: Events) -> set[str]:
        """The promises that these events break, stored as if the engine had written them."""
        head, rows = codec.ZERO, []
        for event, at in events:
            rows += codec.rows_of([event], len(rows) + 1, at, head)
            head = rows[-1].hash
        return {violation.invariant for violation in self.violations(rows)}


def where(events: Events, kind: type[e.Event], nth: int = 0) -> int:
    """The place of the nth event of a kind."""
    places = [i for i, (event, _) in enumerate(events) if isinstance(event, kind)]
    return places[nth]


def without(events: Events, kind: type[e.Event], nth: int = 0) -> Events:
    place = where(events, kind, nth)
    return [*events[:place], *events[place + 1 :]]


def twice(events: Events, kind: type[e.Event], nth: int = 0) -> Events:
    place = where(events, kind, nth)
    return [*events[: place + 1], events[place], *events[place + 1 :]]


def changed(events: Events, kind: type[e.Event], nth: int = 0, **fields: Any) -> Events:
    place = where(events, kind, nth)
    event, at = events[place]
    return [*events[:place], (msgspec.structs.replace(event, **fields), at), *events[place + 1 :]]


def put(events: Events, place: int, event: e.Event) -> Events:
    return [*events[:place], (event, events[place - 1][1]), *events[place:]]


@pytest.mark.parametrize("workflow", TRUE)
def test_a_true_log_keeps_every_promise(workflow: str) -> None:
    story = Story(workflow)
    assert story.violations(status=story.status) == []


@pytest.mark.parametrize("workflow", TRUE)
def test_every_beginning_of_a_true_log_keeps_every_promise(workflow: str) -> None:
    story = Story(workflow)
    assert [story.violations(story.rows[:n]) for n in range(len(story.rows))] == [[]] * len(story.rows)


def test_a_cancelled_log_keeps_every_promise() -> None:
    assert Story(CHAIN, Cancel("enough")).violations(status="cancelled") == []


def test_a_lost_lease_that_is_granted_again_breaks_nothing() -> None:
    events = Story(CHAIN).events
    granted = where(events, e.StepStarted)
    again = [
        (e.StepPaused("start#1", 1, "lost"), events[granted][1]),
        (e.StepRegranted("start#1", 2, "other", reason="lost"), events[granted][1]),
    ]
    events = [*events[: granted + 1], *again, *events[granted + 1 :]]
    assert Story(CHAIN).broken(changed(events, e.StepStarted, 2, fence=3)) == set()


# -- rows -----------------------------------------------------------------------------------------------------------


def test_a_row_that_is_missing_breaks_seq_and_the_chain() -> None:
    story = Story(CHAIN)
    result = {violation.invariant for violation in story.violations([*story.rows[:4], *story.rows[5:]])}
    assert {"seq", "hash_chain"} <= result


def test_a_row_that_was_changed_breaks_the_chain_and_says_where() -> None:
    story = Story(CHAIN)
    rows = list(story.rows)
    place = next(i for i, row in enumerate(rows) if row.type == "step.done")
    rows[place] = rows[place]._replace(data=rows[place].data.replace(b":1", b":7"))
    result = story.violations(rows)
    assert [(one.seq, one.invariant) for one in result] == [(place + 1, "hash_chain")]


def test_a_row_that_is_too_large_is_found() -> None:
    story = Story(CHAIN)
    events = changed(story.events, e.StepDone, result="x" * MAX_EVENT_BYTES)
    assert story.broken(events) == {"size"}


@pytest.mark.parametrize("content", [None, b'"other"'])
@pytest.mark.damaged_log("its stored content is removed or changed")
def test_a_reference_whose_content_is_gone_or_changed_is_found(content: bytes | None) -> None:
    story = Story(LARGE)
    assert story.store.blobs
    for key in list(story.store.blobs):
        if content is None:
            del story.store.blobs[key]
        else:
            story.store.blobs[key] = content
    assert {violation.invariant for violation in story.violations()} == {"references"}


def test_data_that_looks_like_a_reference_is_data() -> None:
    story = Story(CHAIN.replace("result: 1", "result: {$ref: {store: db, key: nothing}}"))
    assert story.violations() == []


def test_the_parts_of_a_result_in_chunks_are_checked() -> None:
    story = Story(CHAIN)
    part, content = refer([[0, 1]])
    manifest, text = refer({"total": 1, "chunks": [part.key]})
    manifest.schema_hint = "chunks"
    story.store.blobs |= {part.key: content, manifest.key: text}
    events = changed(story.events, e.StepDone, result=manifest)
    assert story.broken(events) == set()
    del story.store.blobs[part.key]
    assert story.broken(events) == {"references"}


def test_a_row_that_cannot_be_read_is_found() -> None:
    story = Story(CHAIN)
    rows = [*story.rows[:5], story.rows[5]._replace(type="from.the.future"), *story.rows[6:]]
    assert "readable" in {violation.invariant for violation in story.violations(rows)}


# -- the whole ------------------------------------------------------------------------------------------------------


def test_something_after_the_end_is_found() -> None:
    story = Story(CHAIN)
    assert "terminal" in story.broken([*story.events, (e.MessageReceived("late", "1"), 0.0)])


def test_a_second_end_is_found() -> None:
    story = Story(CHAIN)
    assert "terminal" in story.broken(twice(story.events, e.PlaybookProcessed))
    assert "terminal" in story.broken(twice(story.events, e.WorkflowFinished))


def test_a_status_that_the_log_does_not_give_is_found() -> None:
    result = Story(CHAIN).violations(status="running")
    assert [one.invariant for one in result] == ["replay"]


def test_an_event_that_cannot_be_folded_is_found() -> None:
    story = Story(CHAIN)
    assert "replay" in story.broken(changed(story.events, e.StepDone, run="nowhere#1"))


def frozen(story: Story, seq: int) -> Frozen:
    state = Execution(EXECUTION, story.net, "")
    for event, at in story.events[:seq]:
        evolve(state, event, at)
    return Frozen(seq, story.rows[seq - 1].hash, thaw(freeze(state), story.net))


@pytest.mark.parametrize("workflow", TRUE)
def test_a_snapshot_at_any_place_holds(workflow: str) -> None:
    story = Story(workflow)
    every = [frozen(story, seq) for seq in range(1, len(story.rows) + 1)]
    assert verify(EXECUTION, story.rows, story.net, snapshots=every) == []
    for snapshot in every:
        assert verify(EXECUTION, story.rows, story.net, snapshots=[snapshot]) == []


def test_a_snapshot_that_is_not_the_fold_is_found() -> None:
    story = Story(CHAIN)
    other, true = frozen(story, 9), frozen(story, 10)
    unlike = [{"state": other.state}, {"state": None}, {"hash": b"?"}, {"seq": 99}]
    for snapshot in (true._replace(**change) for change in unlike):
        violations = verify(EXECUTION, story.rows, story.net, snapshots=[snapshot])
        assert {one.invariant for one in violations} == {"snapshot"}


def test_a_snapshot_of_an_earlier_version_lacks_the_items_of_continued_errors() -> None:
    story = Story(CHAIN)
    error, number = {"kind": "python", "message": "no", "step": "a"}, len(story.rows)
    for items, holds in (([{}], True), ([{"item": 3}], True), ([{"message": "yes"}], False), ([], False)):
        folded, snapshot = frozen(story, number).state, frozen(story, number).state
        assert folded is not None
        assert snapshot is not None
        folded.continued, snapshot.continued = [error | {"item": 3}], [error | item for item in items]
        assert (differences(snapshot, folded) == []) is holds


def test_each_snapshot_that_the_log_passes_is_checked() -> None:
    story = Story(CHAIN)
    every = [frozen(story, seq) for seq in range(1, 11)]
    every[3], every[8] = every[3]._replace(hash=b"?"), every[8]._replace(state=every[5].state)
    violations = verify(EXECUTION, story.rows, story.net, snapshots=every)
    assert {one.seq for one in violations} == {4, 9}


def test_rows_that_are_not_the_fold_are_found_both_ways() -> None:
    story = Story(HELD)
    cut = where(story.events, e.StepStarted) + 1  # a lease is alive here
    rows, state = story.rows[:cut], frozen(story, cut).state
    leases = {fence: Leased(one.run, one.worker, one.since, one.ttl) for fence, one in state.leases.items()}
    true = Derived(dict(state.ready), leases, dict(state.timers))
    assert leases

    def broken(derived: Derived) -> set[str]:
        return {one.invariant for one in verify(EXECUTION, rows, story.net, derived=derived)}

    assert broken(true) == set()
    assert broken(Derived(true.ready, {}, true.timers)) == {"rows"}
    assert broken(Derived({**true.ready, "ghost#1": "default"}, leases, true.timers)) == {"rows"}
    assert broken(Derived(true.ready, leases, {**true.timers, "timeout": 1.0})) == {"rows"}
    moved = {fence: one._replace(worker="other") for fence, one in leases.items()}
    assert broken(Derived(true.ready, moved, true.timers)) == {"rows"}


@pytest.mark.parametrize(
    "event", [e.TokenEnqueued(9, "start"), e.StepScheduled("start#2"), e.TaskStarted(TaskId("start#1", "task_1#1"))]
)
def test_a_beginning_after_a_cancel_is_found(event: e.Event) -> None:
    story = Story(CHAIN, Cancel())
    place = where(story.events, e.PlaybookCancelled) + 1
    assert "cancel" in story.broken(put(story.events, place, event))


# -- tokens and runs ------------------------------------------------------------------------------------------------

TOKENS: dict[str, Callable[[Events], Events]] = {
    "consumed twice": lambda events: changed(events, e.StepScheduled, 1, tokens=(1, 2)),
    "not consumed": lambda events: changed(events, e.StepScheduled, 3, tokens=(4,)),
    "from nowhere": lambda events: changed(events, e.TokenEnqueued, 1, origin=None),
    "not selected": lambda events: changed(events, e.NextEvaluated, selected=(0,)),
    "not sent": lambda events: changed(events, e.NextEvaluated, 1, selected=(0, 0)),
    "made twice": lambda events: twice(events, e.TokenEnqueued, 1),
    "out of order": lambda events: changed(events, e.TokenEnqueued, 4, token=9),
    "at another step": lambda events: changed(events, e.TokenEnqueued, 1, step="b"),
    "a step without one": lambda events: changed(events, e.StepScheduled, 1, tokens=()),
}


@pytest.mark.parametrize("how", TOKENS)
def test_a_token_that_does_not_add_up_is_found(how: str) -> None:
    story = Story(FORK)
    assert "tokens" in story.broken(TOKENS[how](story.events))


def test_a_token_that_is_denied_twice_or_held_after_its_end_is_found() -> None:
    story = Story(HELD)
    assert "tokens" in story.broken(twice(story.events, e.TokenDenied))
    place = where(story.events, e.TokenDenied) + 1
    assert "tokens" in story.broken(put(story.events, place, e.TokenHeld(2)))


RUNS: dict[str, Callable[[Events], Events]] = {
    "ends twice": lambda events: twice(events, e.StepDone),
    "does not end": lambda events: without(events, e.StepDone, 1),
    "is numbered wrongly": lambda events: changed(events, e.StepScheduled, 1, run="end#2"),
    "is of no step": lambda events: changed(events, e.StepScheduled, 1, run="nowhere#1"),
    "goes on after its end": lambda events: put(
        events, where(events, e.StepDone) + 1, e.TaskStarted(TaskId("start#1", "task_1#2"))
    ),
    "is routed twice": lambda events: twice(events, e.NextEvaluated),
    "is routed before its end": lambda events: put(
        events, where(events, e.StepDone), e.NextEvaluated("start#1", "step.done")
    ),
}


@pytest.mark.parametrize("how", RUNS)
def test_a_run_that_does_not_add_up_is_found(how: str) -> None:
    story = Story(CHAIN)
    assert "runs" in story.broken(RUNS[how](story.events))


# -- tasks ----------------------------------------------------------------------------------------------------------

OUTCOMES: dict[str, Callable[[Events], Events]] = {
    "twice for an attempt": lambda events: twice(events, e.TaskDone),
    "of an attempt that was left out": lambda events: without(events, e.TaskDone, 1),
    "falling": lambda events: changed(events, e.TaskDone, 2, attempt=1),
    "after the last": lambda events: changed(events, e.TaskDone, 0, do="continue"),
    "started out of turn": lambda events: changed(events, e.TaskStarted, 1, attempt=5),
}


@pytest.mark.parametrize("how", OUTCOMES)
def test_an_outcome_that_does_not_add_up_is_found(how: str) -> None:
    story = Story(RETRY)
    assert "outcomes" in story.broken(OUTCOMES[how](story.events))


FENCES: dict[str, Callable[[Events], Events]] = {
    "a fact without a lease": lambda events: without(events, e.StepStarted),
    "a fact of a lost lease": lambda events: put(
        events, where(events, e.StepStarted) + 1, e.StepPaused("start#1", 1, "lost")
    ),
    "a fence that falls": lambda events: changed(events, e.StepStarted, 1, fence=1),
    "a second lease on the same": lambda events: put(
        events, where(events, e.StepStarted) + 1, e.StepStarted("start#1", 2, "other")
    ),
    "a lease of somebody else": lambda events: put(
        events, where(events, e.StepStarted) + 1, e.StepPaused("start#1", 7, "returned")
    ),
}


@pytest.mark.parametrize("how", FENCES)
def test_a_fence_that_does_not_hold_is_found(how: str) -> None:
    story = Story(CHAIN)
    assert "fences" in story.broken(FENCES[how](story.events))


def test_an_item_outside_of_every_lane_is_found() -> None:
    story = Story(PARALLEL)
    place = where(story.events, e.StepStarted) + 1
    assert "fences" in story.broken(put(story.events, place, e.IterationStarted("start#1", 3)))
    granted = story.events[place - 1][0]
    assert isinstance(granted, e.StepStarted)
    again = e.StepStarted("start#1", granted.fence + 1, "other", granted.items)
    assert "fences" in story.broken(put(story.events, place, again))


# -- ctx ------------------------------------------------------------------------------------------------------------


def test_a_key_that_two_items_wrote_is_found() -> None:
    story = Story(PARALLEL)
    events = story.events
    for nth, value in ((0, 1), (1, 2)):
        events = changed(events, e.TaskDone, nth, set_ctx=(("who", "=", value),))
    assert story.broken(events) == {"ctx"}
    for nth in (0, 1):
        events = changed(events, e.TaskDone, nth, set_ctx=(("who", "=", "same"),))
    assert story.broken(events) == set()


def test_in_a_sequential_loop_items_may_write_the_same_key() -> None:
    story = Story(SEQUENTIAL)
    events = story.events
    for nth, value in ((0, 1), (1, 2)):
        events = changed(events, e.TaskDone, nth, set_ctx=(("who", "=", value),))
    assert story.broken(events) == set()


def test_a_patch_that_cannot_be_applied_is_found() -> None:
    story = Story(RETRY)
    events = changed(story.events, e.TaskDone, 1, set_ctx=(("got", "=", "text"),))
    assert "ctx" in story.broken(changed(events, e.TaskDone, 2, set_ctx=(("got", "$add", 1),)))


# -- loops ----------------------------------------------------------------------------------------------------------

LOOPS: dict[str, Callable[[Events], Events]] = {
    "an item twice": lambda events: twice(events, e.IterationDone),
    "an item that is not there": lambda events: changed(events, e.IterationDone, 3, index=9),
    "an item left out": lambda events: without(events, e.IterationDone, 1),
    "out of order": lambda events: changed(events, e.IterationStarted, 1, index=2),
    "done twice": lambda events: twice(events, e.LoopDone),
    "started twice": lambda events: twice(events, e.LoopStarted),
    "counts that are wrong": lambda events: changed(events, e.LoopDone, ok=3, failed=1),
    "a total that is wrong": lambda events: changed(events, e.LoopDone, total=5),
    "never started": lambda events: without(events, e.LoopStarted),
    "started after its end": lambda events: put(
        events, where(events, e.IterationDone) + 1, e.IterationStarted("start#1", 0)
    ),
    "granted beyond the end": lambda events: changed(events, e.StepStarted, items=(0, 9)),
    "an item that failed uncounted": lambda events: [
        (e.IterationFailed("start#1", 3, Error("x", "y")) if event == last(events) else event, at)
        for event, at in events
    ],
}


def last(events: Events) -> e.Event:
    return events[where(events, e.IterationDone, 3)][0]


@pytest.mark.parametrize("how", LOOPS)
def test_a_loop_that_does_not_add_up_is_found(how: str) -> None:
    story = Story(SEQUENTIAL)
    assert "loops" in story.broken(LOOPS[how](story.events))


def test_more_in_flight_than_allowed_is_found() -> None:
    story = Story(PARALLEL)
    place = where(story.events, e.StepStarted, 1) + 1
    fence = max(event.fence for event, _ in story.events[:place] if isinstance(event, e.StepStarted))
    third = e.StepStarted("start#1", fence + 1, "other", (2, 3))
    assert "loops" in story.broken(put(story.events, place, third))


OTHER = "00000000-0000-7000-8000-000000000002"


def test_a_fork_that_tells_another_story_of_its_source_is_found() -> None:
    """In front of the arcs of the first step, where nothing is under way."""
    story = Story(CHAIN)
    place = where(story.events, e.NextEvaluated)
    assert story.broken(put(story.events, place, e.ExecutionForked(OTHER, place))) == set()
    assert story.broken(put(story.events, place, e.ExecutionForked(OTHER, place - 1))) == {"fork"}
    assert story.broken(put(story.events, place, e.ExecutionForked(EXECUTION, place))) == {"fork"}


def test_ctx_that_a_fork_sets_is_a_patch_like_others() -> None:
    story = Story(CHAIN)
    place = where(story.events, e.NextEvaluated)
    told = e.ExecutionForked(OTHER, place, set_ctx=(("got", "=", 1),))
    assert story.broken(put(story.events, place, told)) == set()


BRANCHES: dict[str, Callable[[Events], Events]] = {
    "fired twice": lambda events: put(
        events, where(events, CaseEvaluated) + 1, CaseEvaluated("start#1", order=("case_0",))
    ),
    "two in exclusive mode": lambda events: changed(events, CaseEvaluated, order=("case_0", "case_1")),
    "asks without having fired": lambda events: changed(events, CaseEvaluated, order=()),
    "suppressed without having fired": lambda events: put(
        events, where(events, NextRequested), BranchSuppressed("start#1", "case_1")
    ),
}


@pytest.mark.parametrize("how", BRANCHES)
def test_branches_that_do_not_add_up_are_found(how: str) -> None:
    story = Story(CASE)
    assert "branches" in story.broken(BRANCHES[how](story.events))


def test_every_promise_has_a_name_and_words() -> None:
    named = (
        "seq hash_chain size references readable terminal tokens runs outcomes fences ctx loops branches cancel replay "
        "snapshot outline rows fork last_commit"
    )
    assert set(INVARIANTS) == set(named.split())
    assert all(INVARIANTS.values())
