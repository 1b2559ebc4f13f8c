"""Why each rule, arc and gate decided as it did, found by looking at the log again."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from forking import again
from stage import EXECUTION, Stage, play
from test_forks import CHILD, FINAL, RICH

from noetl.engine import events as e
from noetl.engine.commands import Cancel, Pause, Signal
from noetl.engine.decision import Decision
from noetl.engine.history.explain import Explanation, Question
from noetl.engine.history.reasons import ExplainedDecision, arcs_of
from noetl.engine.state import Ended
from noetl.errors import NotFound, UsageError
from noetl.model.outcome import failed
from noetl.reference import Reference
from noetl.runtime import explanations
from noetl.runtime.explanations import Explained, ExplanationPart, _decision, explain, explain_event, question_about
from noetl.runtime.past import PastReader

EVERYTHING = ExplanationPart(limit=200)


def explained(stage: Stage, step: str, run: str | None = None, part: ExplanationPart = EVERYTHING) -> Explanation:
    async def work() -> Explanation:
        return await live(stage, step, run, part)

    return again(stage, work)


async def live(
    stage: Stage, step: str, run: str | None = None, part: ExplanationPart = EVERYTHING, item: int | None = None
) -> Explanation:
    question = question_about(step, run, item=item)
    result = await stage.engine.runtime.past.do(lambda past: explain(past, EXECUTION, question, part))
    return result.explanation


def verdicts(decision: ExplainedDecision) -> list[tuple[str, str]]:
    return [(reason.leads_to, reason.verdict) for reason in decision.reasons]


def of(found: Explanation, kind: str) -> list[ExplainedDecision]:
    return [decision for decision in found.decisions if decision.kind == kind]


# -- arcs -----------------------------------------------------------------------------------------------------------

ARCS = """\
- step: a
  tool: {kind: noop, result: {n: 3}}
  next: {spec: {mode: MODE}, arcs: [{step: big, when: "{{ steps.a.result.n > workload.limit }}"}, {step: small, when: "{{ a.n <= workload.limit and ctx.gone.x is not defined }}"}, {step: rest}]}
- {step: big}
- {step: small}
- {step: rest}
"""


def test_exclusive_arcs_tell_what_they_saw_and_which_was_not_reached() -> None:
    stage = play(ARCS.replace("MODE", "exclusive"), head="workload: {limit: 5}\n")
    (result,) = of(explained(stage, "a"), "arcs")
    assert (result.about, result.says) == (
        "a#1",
        "a#1 ended with step.done; continues with small (exclusive: the first that matches)",
    )
    assert verdicts(result) == [("big", "not matched"), ("small", "matched"), ("rest", "not reached")]
    first, second, third = result.reasons
    assert (first.place, first.when) == ("a/next/0", "{{ steps.a.result.n > workload.limit }}")
    assert first.values == {"steps.a.result.n": 3, "workload.limit": 5}
    assert (second.values, second.missing) == ({"a.n": 3, "workload.limit": 5}, ["ctx.gone.x"])
    assert (third.when, third.values) == (None, {})
    assert stage.events[result.seq - 1].name == "next.evaluated"


def test_a_step_is_shown_whole_and_by_its_bare_name_as_its_result() -> None:
    arc = "{step: b, when: '{{ steps.a != 1 and a != 1 }}'}"
    stage = play(f"- {{step: a, tool: {{kind: noop, result: 3}}, next: {{arcs: [{arc}]}}}}\n- {{step: b}}")
    (decision,) = of(explained(stage, "a"), "arcs")
    whole = {"status": "succeeded", "result": 3, "error": None}
    assert decision.reasons[0].values == {"steps.a": whole, "a": 3}


def test_inclusive_arcs_are_all_looked_at() -> None:
    stage = play(ARCS.replace("MODE", "inclusive"), head="workload: {limit: 5}\n")
    (result,) = of(explained(stage, "a"), "arcs")
    assert verdicts(result) == [("big", "not matched"), ("small", "matched"), ("rest", "matched")]
    assert result.says == "a#1 ended with step.done; continues with small, rest"


def test_an_arc_that_cannot_be_evaluated_ends_the_looking() -> None:
    stage = play(
        "- {step: a, next: {arcs: [{step: b, when: '{{ 1 / ctx.zero > 1 }}'}, {step: b}]}}\n- {step: b}",
        ctx={"zero": 0},
    )
    (result,) = of(explained(stage, "a"), "arcs")
    assert verdicts(result) == [("b", "error"), ("b", "not reached")]
    assert "division by zero" in result.reasons[0].note
    assert result.reasons[0].values == {"ctx.zero": 0}
    assert "the execution failed here" in result.says


def test_after_a_failure_an_arc_that_looks_elsewhere_is_passed_over() -> None:
    steps = "- {step: a, tool: {kind: python, code: bad}, next: {arcs: [{step: b}, {step: c, when: \"{{ event.name == 'step.failed' }}\"}]}}\n- {step: b}\n- {step: c}"
    stage = play(steps, tools={"bad": lambda: failed("shaky", "it broke")})
    result = explained(stage, "a")
    arcs = of(result, "arcs")[0]
    assert verdicts(arcs) == [("b", "not reached"), ("c", "matched")]
    assert "after a failure" in arcs.reasons[0].note
    assert arcs.reasons[1].values == {"event.name": "step.failed"}
    assert "it has no policy, and an error fails" in of(result, "rules")[0].says


def test_where_no_arc_matches_the_end_of_the_branch_is_reported() -> None:
    stage = play("- {step: a, next: {arcs: [{step: b, when: '{{ false }}'}]}}\n- {step: b}")
    assert of(explained(stage, "a"), "arcs")[0].says.endswith("no arc matched, so its branch ends")
    stage = play("- {step: a, tool: {kind: python, code: bad}}", tools={"bad": lambda: failed("shaky", "no")})
    assert of(explained(stage, "a"), "arcs")[0].says.endswith("it has no arcs, so the execution fails")


def test_what_comes_out_otherwise_is_said() -> None:
    """As if the guard had asked for the time: the log says something else."""
    stage = play(ARCS.replace("MODE", "exclusive"), head="workload: {limit: 5}\n")
    state = stage.state
    state.finished = None
    state.ended["a#1"] = Ended("a#1", "step.done", {}, {}, {"name": "step.done", "data": {}})
    result = arcs_of(Decision(state, stage.clock.time, None), e.NextEvaluated("a#1", "step.done", (2,)))
    assert (result.says, result.differs) == (
        "a#1 ended with step.done; continues with rest (exclusive: the first that matches)",
        "continues with small",
    )


# -- rules ----------------------------------------------------------------------------------------------------------


def policy(*rules: str) -> str:
    return "spec: {policy: {rules: [" + ", ".join(rules) + "]}}"


def test_rules_tell_the_outcome_they_saw_at_each_attempt() -> None:
    rules = policy(
        "{when: '{{ ctx.dry | default(false) }}', then: {do: skip}}",
        "{when: \"{{ outcome.status == 'error' and _attempt < workload.most }}\", then: {do: retry, attempts: 9}}",
        "{else: {then: {do: continue}}}",
    )
    answers = iter([failed("shaky", "no"), failed("shaky", "no"), "yes"])
    stage = play(
        f"- {{step: a, tool: [call: {{kind: python, code: next, {rules}}}]}}",
        head="workload: {most: 5}\n",
        tools={"next": lambda: next(answers)},
    )
    result = of(explained(stage, "a"), "rules")
    assert [one.says for one in result] == [
        "a#1/call#1, attempt 1: error shaky; retry",
        "a#1/call#1, attempt 2: error shaky; retry",
        "a#1/call#1, attempt 3: ok; continue",
    ]
    assert verdicts(result[0]) == [("skip", "not matched"), ("retry", "matched"), ("continue", "not reached")]
    assert verdicts(result[1])[0] == ("skip", "not reached")
    assert verdicts(result[2]) == [("skip", "not reached"), ("retry", "not matched"), ("continue", "matched")]
    assert result[1].reasons[1].values == {"outcome.status": "error", "_attempt": 2, "workload.most": 5}
    assert [reason.place for reason in result[0].reasons] == ["a/call/rules/0", "a/call/rules/1", "a/call/rules/2"]
    assert [one.differs for one in result] == ["", "", ""]


def test_the_last_attempt_and_a_skip_and_a_jump_are_reported() -> None:
    retry = policy("{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2}}")
    stage = play(
        f"- {{step: a, tool: {{kind: python, code: bad, {retry}}}}}", tools={"bad": lambda: failed("shaky", "no")}
    )
    assert of(explained(stage, "a"), "rules")[1].says.endswith("fail, since attempt 2 of 2 was the last")
    skip = policy("{when: '{{ ctx.dry }}', then: {do: skip}}", "{when: '{{ outcome.result }}', then: {do: fail}}")
    stage = play(f"- {{step: a, tool: {{kind: noop, {skip}}}}}", ctx={"dry": True})
    (result,) = of(explained(stage, "a"), "rules")
    assert (result.says, verdicts(result)) == (
        "a#1/task_1#1, skipped; skip",
        [("skip", "matched"), ("fail", "not reached")],
    )
    jump = policy("{when: '{{ iter.page | default(1) < 2 }}', then: {do: jump, to: get, set_iter: {page: 2}}}")
    stage = play(f"- {{step: a, tool: [get: {{kind: noop}}, more: {{kind: noop, {jump}}}]}}")
    first, second = of(explained(stage, "a"), "rules")
    assert (first.says, first.reasons[0].missing) == ("a#1/more#1, attempt 1: ok; jump to get", ["iter.page"])
    assert (second.says, second.reasons[0].values) == (
        "a#1/more#2, attempt 1: ok; no rule matches, so it continues",
        {"iter.page": 2},
    )


def test_the_error_of_an_item_names_it() -> None:
    loop = "loop: {in: '{{ [5, 6] }}', iterator: x, spec: {on_error: continue}}"
    stage = play(
        f"- {{step: a, {loop}, tool: {{kind: python, code: bad}}}}", tools={"bad": lambda: failed("shaky", "no")}
    )
    errors = [decision.error for decision in of(explained(stage, "a"), "rules")]
    assert [error and (error["step"], error["item"], error["kind"]) for error in errors] == [
        ("a", 0, "shaky"),
        ("a", 1, "shaky"),
    ]


def test_rules_in_loops_see_their_item_and_its_own_writes() -> None:
    rules = policy(
        "{when: '{{ iter.x.n > 1 and ctx.seen | default(0) == 0 }}', then: {do: continue, set_ctx: {top: {$max: '{{ iter.x.n }}'}}}}"
    )
    top = policy("{when: '{{ ctx.top == 7 }}', then: {do: break}}")
    steps = f"- {{step: a, loop: {{in: '{{{{ workload.items }}}}', iterator: x, spec: {{mode: parallel}}}}, tool: [one: {{kind: noop, {rules}}}, two: {{kind: noop, {top}}}]}}"
    stage = play(steps, payload={"items": [{"n": 1}, {"n": 2}]})
    result = {one.about: one for one in of(explained(stage, "a"), "rules")}
    assert result["a#1[0]/one#1"].reasons[0].values == {"iter.x.n": 1}
    assert verdicts(result["a#1[1]/one#1"]) == [("continue", "matched")]
    assert result["a#1[1]/two#1"].reasons[0].values == {"ctx.top": 2}
    assert result["a#1[0]/two#1"].reasons[0].missing == ["ctx.top"]
    assert all(one.differs == "" for one in result.values())


def test_rules_inside_iterators_see_their_item_and_the_one_around_it() -> None:
    rules = policy("{when: '{{ iter.y + iter.parent.x > 12 and args.z == 1 }}', then: {do: break}}")
    steps = f"- {{step: a, loop: {{in: [1, 2], iterator: x}}, tool: [each: {{kind: iterator, in: [10, 11], iterator: y, tool: [one: {{kind: noop, args: {{z: 1}}, {rules}}}]}}]}}"
    stage = play(steps)
    result = {one.about: one for one in of(explained(stage, "a"), "rules")}
    assert result["a#1[1]/each#1[1]/one#1"].reasons[0].values == {"iter.y": 11, "iter.parent.x": 2, "args.z": 1}
    assert verdicts(result["a#1[1]/each#1[1]/one#1"]) == [("break", "matched")]
    assert verdicts(result["a#1[0]/each#1[0]/one#1"]) == [("break", "not matched")]


def test_a_stored_value_is_opened_only_where_the_guard_looked_into_it() -> None:
    big = {"rows": ["x" * 100] * 2000, "more": True}
    rules = policy("{when: '{{ outcome.result.more }}', then: {do: continue}}")
    steps = f"- {{step: a, tool: {{kind: python, code: big, {rules}}}, next: {{arcs: [{{step: b, when: '{{{{ false and a.rows }}}}'}}, {{step: b, when: '{{{{ event.data.result }}}}'}}, {{step: b, when: '{{{{ ctx.many }}}}'}}]}}}}\n- {{step: b}}"
    stage = play(steps, tools={"big": lambda: big}, ctx={"many": list(range(1000))})
    result = explained(stage, "a")
    assert of(result, "rules")[0].reasons[0].values == {"outcome.result.more": True}
    unread, whole, unreached = of(result, "arcs")[0].reasons
    assert isinstance(unread.values["a.rows"], Reference)
    assert isinstance(whole.values["event.data.result"], Reference)
    assert (unreached.verdict, unreached.values) == ("not reached", {})
    stage = play(
        steps.replace("{{ event.data.result }}", "{{ false }}"),
        tools={"big": lambda: big},
        ctx={"many": list(range(1000))},
    )
    many = of(explained(stage, "a"), "arcs")[0].reasons[2].values["ctx.many"]
    assert many == {"left_out": "list of 3,891 bytes", "preview": {"count": 1000}}


# -- gates and joins ------------------------------------------------------------------------------------------------

GATE = """\
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: gate, args: {n: 1}}, {step: opens}]}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ args.n > 5 }}", then: {allow: false}}, {when: "{{ ctx.open }}", then: {allow: true}}]}}}, tool: {kind: noop}}
- {step: opens, tool: {kind: noop, RULES}}
"""


def test_a_gate_tells_why_it_held_a_token_and_why_it_let_it_in() -> None:
    stage = play(GATE.replace("RULES", policy("{else: {then: {do: continue, set_ctx: {open: true}}}}")))
    held, entered = of(explained(stage, "gate"), "admission")
    assert held.says == "token 2 (from start#1) is held: gate does not admit it"
    assert verdicts(held) == [("deny", "not matched"), ("allow", "not matched")]
    assert (held.reasons[0].values, held.reasons[1].missing) == ({"args.n": 1}, ["ctx.open"])
    assert entered.says == "gate#1 starts with token 2 (from start#1)"
    assert verdicts(entered)[1] == ("allow", "matched")
    assert entered.reasons[1].values == {"ctx.open": True}
    assert [held.differs, entered.differs] == ["", ""]


def test_a_token_that_was_never_let_in() -> None:
    result = explained(play(GATE.replace("RULES", "result: 1")), "gate")
    assert [decision.says.partition(":")[0] for decision in result.decisions] == [
        "token 2 (from start#1) is held",
        "token 2 is denied",
    ]
    assert result.notes == ["it has not run: a token arrived, and was not admitted"]


def test_how_an_item_stands_is_said_of_the_item_alone() -> None:
    steps = """\
    - step: ask
      loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
      tool: {kind: wait, signal: "go{{ iter.n }}"}
    """
    said: list[list[str]] = []

    async def during(stage: Stage) -> None:
        await stage.engine.worker.claim()
        await stage.until(lambda: len(stage.live().runs["ask#1"].parked) == 2)
        await stage.handle(Signal("other", "0"))  # stored after the waits
        said.append((await live(stage, "ask", item=1)).notes)
        await stage.handle(Signal("go1", "1"))
        await stage.until(lambda: len(stage.live().runs["ask#1"].parked) == 1)
        said.append((await live(stage, "ask", item=0)).notes)
        await stage.handle(Cancel())

    play(steps, during=during)
    (text,) = said[0]
    assert text.startswith("ask#1[1] waits for the signal 'go2'; answer with `noetl runs signal ")
    assert said[1] == []


def test_how_a_held_token_a_join_and_a_wait_stand_now() -> None:
    steps = """\
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: gate}, {step: late, spec: {delay: 500}}]}}
    - {step: a, next: {arcs: [{step: both}]}}
    - {step: b, tool: {kind: wait, signal: go}, next: {arcs: [{step: both}]}}
    - {step: both, spec: {join: all}, tool: {kind: noop}}
    - {step: gate, spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}, next: {arcs: [{step: both}]}}
    - {step: late, next: {arcs: [{step: both}]}}
    """
    said: dict[str, list[str]] = {}

    async def during(stage: Stage) -> None:
        await stage.engine.worker.claim()
        await stage.until(lambda: bool(stage.live().runs["b#1"].parked))
        await stage.handle(Pause())
        for step in ("b", "both", "gate", "late"):
            said[step] = (await live(stage, step)).notes
        await stage.handle(Cancel())

    stage = play(steps, during=during)
    (text,) = said["b"]
    assert text.startswith("b#1 waits for the signal 'go'; answer with `noetl runs signal ")
    (join,) = said["both"]
    assert join.startswith("token 6 (from a#1) waits here for others: the run b#1; ")
    assert "token 4 at gate, which is held" in join
    assert "token 5 at late" in join
    assert said["gate"] == [
        "token 4 (from start#1) is held until ctx changes or a signal arrives: ctx.open is not matched; the execution is paused"
    ]
    assert said["late"] == ["token 5 (from start#1) is delayed by its arc"]
    assert explained(stage, "both").notes == [
        "it has not run: a token arrived, and was not admitted: the execution was cancelled before it could enter"
    ]


def test_a_run_that_no_worker_has_taken() -> None:
    said: list[str] = []

    async def during(stage: Stage) -> None:
        said.extend((await live(stage, "a")).notes)
        await stage.handle(Cancel())

    play("- {step: a, tool: {kind: noop}}", during=during)
    assert said == ["a#1 is ready for a worker of the pool default"]


# -- steps that never ran -------------------------------------------------------------------------------------------


def test_a_step_that_never_ran_shows_the_arcs_that_lead_to_it() -> None:
    stage = play(ARCS.replace("MODE", "exclusive"), head="workload: {limit: 5}\n")
    result = explained(stage, "big")
    (arcs,) = result.decisions
    assert result.notes == ["it has not run: no token arrived", f"a did not lead here, see event {arcs.seq}"]
    assert verdicts(arcs)[0] == ("big", "not matched")


def test_other_reasons_why_a_step_never_ran() -> None:
    steps = "- {step: a, next: {arcs: [{step: b, when: '{{ false }}'}]}}\n- {step: b, next: {arcs: [{step: c}]}}\n- {step: c}\n- {step: alone}\n- {step: bye}"
    stage = play(steps, Cancel(), head="executor: {spec: {final_step: bye}}\n")
    assert explained(stage, "c").notes == ["it has not run: no token arrived", "b has not run either"]
    assert explained(stage, "alone").notes == ["it has not run: no arc leads to it"]
    stage = play(
        "- {step: a, tool: {kind: wait, signal: x}, next: {arcs: [{step: c}]}}\n- {step: c}\n- {step: bye}",
        Cancel(),
        head="executor: {spec: {final_step: bye}}\n",
    )
    assert explained(stage, "bye").notes[0].startswith("it has not run: it is the final step")
    assert explained(stage, "c").notes[1] == "a was cancelled, and its arcs were not evaluated"


# -- as a whole -----------------------------------------------------------------------------------------------------


def test_of_several_runs_one_can_be_requested() -> None:
    steps = "- {step: a, tool: {kind: noop, result: '{{ ctx.n | default(0) }}', spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}}, next: {arcs: [{step: a, when: '{{ ctx.n < 3 }}'}]}}"
    stage = play(steps)
    assert [one.about for one in of(explained(stage, "a"), "arcs")] == ["a#1", "a#2", "a#3"]
    result = explained(stage, "a", "a#2")
    assert [decision.kind for decision in result.decisions] == ["admission", "rules", "arcs"]
    assert result.decisions[2].reasons[0].values == {"ctx.n": 2}
    with pytest.raises(NotFound, match="step run 'a#9' not found: the step was entered 3 times"):
        explained(stage, "a", "a#9")
    with pytest.raises(UsageError, match="is not a run of step 'a'"):
        explained(stage, "a", "b#1")
    with pytest.raises(NotFound, match="step 'aa' not found"):
        explained(stage, "aa")


def test_an_item_that_the_loop_does_not_have_is_not_found() -> None:
    stage = play(
        "- {step: a, loop: {in: [1, 2], iterator: x}, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n- {step: b}"
    )

    def of_item(step: str, item: int) -> Explanation:
        async def work() -> Explanation:
            question = question_about(step, item=item)
            result = await stage.engine.runtime.past.do(lambda past: explain(past, EXECUTION, question, EVERYTHING))
            return result.explanation

        return again(stage, work)

    assert of_item("a", 1).step == "a"
    with pytest.raises(NotFound, match="item 2 of step 'a' not found: its loop has 2 items"):
        of_item("a", 2)
    with pytest.raises(NotFound, match="item 0 of step 'b' not found: it has no items"):
        of_item("b", 0)


def test_of_many_decisions_the_latest_are_reported() -> None:
    rules = policy("{when: '{{ false }}', then: {do: break}}")
    stage = play(
        f"- {{step: a, loop: {{in: '{{{{ range(300) | list }}}}', iterator: x}}, tool: {{kind: noop, {rules}}}}}"
    )
    result = explained(stage, "a")
    assert (len(result.decisions), result.next) == (200, result.decisions[0].seq)
    assert result.decisions[-1].kind == "arcs"
    earlier = explained(stage, "a", part=ExplanationPart(None, result.next, 200))
    assert (len(earlier.decisions), earlier.next) == (102, None)
    assert earlier.decisions[0].kind == "admission"


def every_decision(stage: Stage, question: Question) -> list[ExplainedDecision]:
    """All decisions, found by folding the whole log."""

    def fold(past: PastReader) -> list[ExplainedDecision]:
        state, decisions = past.stored_state(EXECUTION, 1), []
        for event, row in past.fold(state, past.store.seq(EXECUTION)):
            decision = past.evaluated(partial(_decision, question, state, row.at, event))
            wanted = question.item is None or (isinstance(event, e.TaskDone) and event.task.index == question.item)
            decisions += [decision] if decision is not None and wanted else []
        return decisions

    async def work() -> list[ExplainedDecision]:
        return await stage.engine.runtime.past.do(fold)

    return again(stage, work)


LOOPS = """\
- {step: one, tool: {kind: noop}, next: {arcs: [{step: many, when: '{{ steps.many is not defined }}'}, {step: rest}]}}
- {step: many, loop: {in: '{{ range(400) | list }}', iterator: x, spec: {mode: parallel, on_error: continue}}, tool: {kind: python, code: shaky, POLICY}, next: {arcs: [{step: one}]}}
- {step: rest, spec: {policy: {admit: {rules: [{when: '{{ true }}', then: {allow: true}}]}}}}
"""


@pytest.mark.parametrize("rules", ["", policy("{when: '{{ outcome.status == \"error\" }}', then: {do: continue}}")])
def test_what_the_outline_leads_to_is_what_the_whole_log_has(rules: str) -> None:
    calls: list[int] = []

    def shaky() -> Any:
        calls.append(1)
        return failed("odd", "every 97th call fails") if len(calls) % 97 == 0 else 1

    stage = play(LOOPS.replace(", POLICY", f", {rules}" if rules else ""), tools={"shaky": shaky})
    assert len(stage.events) > 1_000
    questions = [*map(Question, ("one", "many", "rest")), Question("many", item=96), Question("one", "one#2")]
    for question in questions:
        expected, result = every_decision(stage, question), []
        part = ExplanationPart(limit=7)
        while True:
            page = explanation_of(stage, question, part)
            assert len(page.decisions) <= 7
            result = [*page.decisions, *result]
            if page.next is None:
                break
            part = part._replace(before=page.next)
        assert result == expected
        assert result or question.item


def explanation_of(stage: Stage, question: Question, part: ExplanationPart) -> Explanation:
    async def work() -> Explanation:
        return (await stage.engine.runtime.past.do(lambda past: explain(past, EXECUTION, question, part))).explanation

    return again(stage, work)


def test_every_decision_comes_out_as_it_did() -> None:
    stage = play(RICH, head=FINAL, children={"child": CHILD})
    kinds = set()
    for step in stage.state.net.steps:
        for decision in explained(stage, step).decisions:
            assert decision.differs == "", decision
            kinds.add(decision.kind)
    assert kinds == {"arcs", "rules", "admission"}


def test_inputs_of_a_task_are_rendered_again_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_TOKEN", "topsecret")
    inputs = "url: 'http://127.0.0.1/{{ ctx.part }}', headers: {a: '{{ keychain.api.token }}', b: 'x {{ keychain.api.token }}'}, body: '{{ ctx.gone.x }}'"
    rules = policy("{when: '{{ true }}', then: {do: skip}}")
    stage = play(
        f"- {{step: a, tool: {{kind: http, {inputs}, {rules}}}}}",
        head="keychain: [{name: api, kind: bearer, provider: env, key: TEST_API_TOKEN}]\n",
        ctx={"part": "one"},
    )
    seq = stage.names.index("task.done") + 1

    async def work() -> Explained:
        return await stage.engine.runtime.past.do(lambda past: explain_event(past, EXECUTION, seq))

    result = again(stage, work).inputs
    assert result is not None
    assert result["url"] == "http://127.0.0.1/one"
    assert "topsecret" not in str(result)
    assert result["body"]["left_out"]


def test_a_search_that_takes_long_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanations, "MAX_SCANNED", 10)
    monkeypatch.setattr(explanations, "ROWS_PER_READ", 5)
    stage = play(
        LOOPS.replace("POLICY", policy("{when: '{{ outcome.result > 1 }}', then: {do: continue}}")),
        tools={"shaky": lambda: 1},
    )
    question, part, pages = Question("many", item=5), ExplanationPart(limit=2), []
    while True:
        page = explanation_of(stage, question, part)
        pages.append(page.decisions)
        if page.next is None:
            break
        assert part.before is None or page.next < part.before
        part = part._replace(before=page.next)
    assert [decision for page in reversed(pages) for decision in page] == every_decision(stage, question)
    assert len(pages) > 3


# -- classic steps --------------------------------------------------------------------------------------------------


def test_branches_of_a_case_tell_what_they_saw() -> None:
    steps = """\
    - step: start
      tool: {kind: python, code: ask}
      case:
        - {when: "{{ event.name == 'call.done' and result.n > 5 }}", then: [{next: [{step: big}]}]}
        - {when: "{{ event.name == 'call.done' and result.n > 1 }}", then: [{next: [{step: small}]}]}
        - {when: "{{ event.name == 'call.done' }}", then: [{next: [{step: big}]}]}
    - {step: big, tool: {kind: noop}}
    - {step: small, tool: {kind: noop}}
    """
    stage = play(steps, tools={"ask": lambda: {"n": 3}})
    (result,) = of(explained(stage, "start"), "case")
    assert result.says == "start#1, at call.done: case_1 fires (exclusive)"
    assert verdicts(result) == [("case_0", "not matched"), ("case_1", "matched"), ("case_2", "not reached")]
    assert result.reasons[0].values == {"event.name": "call.done", "result.n": 3}
    assert (result.reasons[1].place, result.differs) == ("start/case_1", "")


CASE_TARGETS = """\
- step: a
  tool: {kind: noop, result: {n: 3}}
  case:
    - {when: "{{ event.name == 'call.done' and response.n > 5 }}", then: {next: [{step: big}]}}
    - {when: "{{ event.name == 'call.done' }}", then: {next: [{step: small}]}}
- {step: big, tool: {kind: noop}}
- {step: small, tool: {kind: noop}, case: [{when: "{{ false }}", then: {next: [{step: late}]}}]}
- {step: late, tool: {kind: noop}, case: [{when: "{{ true }}", then: {next: [{step: last}]}}]}
- {step: last, tool: {kind: noop}}
"""


def test_a_step_that_only_branches_lead_to_names_the_branch_that_did_not() -> None:
    stage = play(CASE_TARGETS)
    assert explained(stage, "big").notes == [
        "it has not run: no token arrived",
        "a did not lead here by its branch case_0, when {{ event.name == 'call.done' and response.n > 5 }}: "
        f"`noetl explain {EXECUTION} a` shows why",
    ]
    assert (
        explained(stage, "late").notes[1].startswith("small did not lead here by its branch case_0, when {{ false }}")
    )
    assert explained(stage, "last").notes[1:] == ["late has not run either"]


def test_what_a_rule_could_not_write_is_reported() -> None:
    rules = policy("{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}")
    stage = play(f"- {{step: a, tool: {{kind: noop, {rules}}}}}", ctx={"n": "text"})
    (result,) = of(explained(stage, "a"), "rules")
    assert (verdicts(result), result.differs) == ([("continue", "matched")], "")
    assert "; fail: " in result.says
    assert "$add cannot combine text with a number" in result.says
