"""S19, S20, S32 where they meet large values, iterators and lost workers."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage import Stage, play
from tests.servers.patience import PATIENCE_SECONDS

from noetl.engine.commands import Pause, Resume
from noetl.model.outcome import failed

BIG = 70_000
"""Characters that do not fit into one event."""


def _rows(n: int) -> list[str]:
    return ["x" * 100] * n


# -- S20: reducers are exact, whatever they meet ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("big", "reducer", "expected"),
    [
        (_rows(800), "{$append: 1}", [*_rows(800), 1]),
        (_rows(800), "{$add: [1, 2]}", [*_rows(800), 1, 2]),
        ("y" * BIG, "{$add: z}", "y" * BIG + "z"),
        ({"a": "é" * BIG}, "{$merge: {b: 2}}", {"a": "é" * BIG, "b": 2}),
        ("y" * BIG, "{$max: z}", "z"),
        ("y" * BIG, "{$min: z}", "y" * BIG),
        ({"$ref": "x" * BIG}, "{$merge: {'$$ref': 1}}", {"$ref": "x" * BIG, "$$ref": 1}),
    ],
    ids=["append", "add-list", "add-text", "merge", "max", "min", "looks-like-a-reference"],
)
@pytest.mark.parametrize("scope", ["ctx", "iter"])
def test_s20_a_reducer_looks_into_a_large_value(big: Any, reducer: str, expected: Any, scope: str) -> None:
    end = play(
        f"""
        - step: start
          tool:
            - make:
                kind: python
                code: make
                spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_{scope}: {{k: "{{{{ outcome.result }}}}"}}}}}}}}]}}}}
            - change:
                kind: noop
                spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_{scope}: {{k: {reducer}}}}}}}}}]}}}}
            - show: {{kind: noop, result: "{{{{ {scope}.k == workload.expected }}}}"}}
        """,
        head="workload: {expected: null}\n",
        payload={"expected": expected},
        tools={"make": lambda: big},
    )
    assert end.state.error is None
    assert end.state.result is True


def test_s20_a_value_is_written_out_once_however_often_it_is_changed() -> None:
    end = play(
        """
        - step: start
          tool:
            - make:
                kind: python
                code: make
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: "{{ outcome.result }}"}}}}]}}
          next: {arcs: [{step: grow}]}
        - step: grow
          loop: {in: "{{ range(30) }}", iterator: n, spec: {mode: parallel}}
          tool:
            - add:
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: {$append: "{{ iter.n }}"}}}}}]}}
          next: {arcs: [{step: show}]}
        - step: show
          tool: {kind: noop, result: "{{ ctx.k | length }}"}
        """,
        tools={"make": lambda: _rows(800)},
    )
    assert end.state.result == 830
    whole = [event for event in end.of("ctx.patched") if event.spelled and not event.spelled.more]
    assert len(whole) == 1
    assert sorted(end.state.ctx["k"][800:]) == list(range(30))


def test_s20_a_large_operand_is_combined_too() -> None:
    end = play(
        """
        - step: start
          loop: {in: [1, 2, 3], iterator: n}
          tool:
            - page:
                kind: python
                code: page
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {rows: {$add: "{{ outcome.result }}"}}}}}]}}
          next: {arcs: [{step: show}]}
        - step: show
          tool: {kind: noop, result: "{{ ctx.rows | length }}"}
        """,
        tools={"page": lambda: _rows(800)},
    )
    assert end.state.result == 2400


def test_s20_a_value_beyond_the_limit_of_ctx_is_a_clear_error() -> None:
    end = play(
        """
        - step: start
          tool:
            - make:
                kind: python
                code: make
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: "{{ outcome.result }}"}}}}]}}
            - change:
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: {$append: 1}}}}}]}}
        """,
        tools={"make": lambda: _rows(20_000)},
    )
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "too_large"
    assert end.state.error["task"] == "change"


def test_s19_a_run_reduces_its_own_view_of_a_large_value() -> None:
    """What another branch appends meanwhile is not seen by a run that began before; the sum has both."""
    appended = asyncio.Event()

    async def wait() -> None:
        await appended.wait()

    def done() -> None:
        appended.set()

    grow = "{else: {then: {do: continue, set_ctx: {k: {$append: NAME}}}}}"
    end = play(
        f"""
        - step: start
          tool:
            - make:
                kind: python
                code: make
                spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{k: "{{{{ outcome.result }}}}"}}}}}}}}]}}}}
          next: {{spec: {{mode: inclusive}}, arcs: [{{step: slow}}, {{step: quick}}]}}
        - step: slow
          tool:
            - wait: {{kind: python, code: wait}}
            - add: {{kind: noop, spec: {{policy: {{rules: [{grow.replace("NAME", "slow")}]}}}}}}
            - show: {{kind: noop, result: "{{{{ [ctx.k | length, ctx.k[-1]] }}}}"}}
        - step: quick
          tool:
            - add: {{kind: noop, spec: {{policy: {{rules: [{grow.replace("NAME", "quick")}]}}}}}}
            - done: {{kind: python, code: done}}
        """,
        tools={"make": lambda: _rows(800), "wait": wait, "done": done},
    )
    assert end.state.steps["slow"].result == [801, "slow"]
    assert end.state.ctx["k"][800:] == ["quick", "slow"]


# -- S19: items of a parallel iterator see their own writes, also after a crash ---------------------------------------

ITERATOR = """
    - step: start
      tool:
        - each:
            kind: iterator
            in: [0, 1, 2]
            iterator: n
            spec: {mode: parallel, max_in_flight: 3}
            tool:
              - write:
                  kind: noop
                  spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {log: {$append: "{{ iter.n }}"}}}}}]}}
              - work: {kind: python, code: work, args: {n: "{{ iter.n }}"}}
              - see: {kind: noop, result: "{{ ctx.log }}"}
        - after: {kind: noop, result: {items: "{{ _prev }}", log: "{{ ctx.log }}"}}
"""


def test_s19_items_of_a_parallel_iterator_keep_their_own_view_after_a_lost_worker() -> None:
    inside, crashed = asyncio.Event(), False

    async def work(n: int) -> int:
        if not crashed and n == 0:
            inside.set()
        if not crashed and n != 1:
            await asyncio.sleep(30)
        return n

    async def during(stage: Stage) -> None:
        nonlocal crashed
        driving = asyncio.create_task(stage.drive())
        await asyncio.wait_for(inside.wait(), PATIENCE_SECONDS)
        await stage.until(lambda: sum(1 for event in stage.of("task.done") if "work" in event.task.path) == 1)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        crashed = True
        await stage.crash()
        await stage.drive()

    end = play(ITERATOR, tools={"work": work}, during=during)
    assert end.state.result == {"items": [[0], [1], [2]], "log": [0, 1, 2]}
    assert sorted(end.state.ctx["log"]) == [0, 1, 2]


def test_s20_write_once_in_a_parallel_iterator_holds_after_a_lost_worker() -> None:
    inside, crashed = asyncio.Event(), False

    async def work(n: int) -> int:
        if n == 1 and not crashed:
            inside.set()
            await asyncio.sleep(30)
        return n

    async def during(stage: Stage) -> None:
        nonlocal crashed
        driving = asyncio.create_task(stage.drive())
        await asyncio.wait_for(inside.wait(), PATIENCE_SECONDS)
        await stage.until(lambda: any(event.set_ctx for event in stage.of("task.done")))
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        crashed = True
        await stage.crash()
        await stage.drive()

    end = play(
        """
        - step: start
          tool:
            - each:
                kind: iterator
                in: [0, 1]
                iterator: n
                spec: {mode: parallel}
                tool:
                  - work:
                      kind: python
                      code: work
                      args: {n: "{{ iter.n }}"}
                      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: "{{ iter.n }}"}}}}]}}
                  - end: {kind: noop}
        """,
        tools={"work": work},
        during=during,
    )
    assert end.state.error["kind"] == "ctx_conflict"


def test_s19_writes_of_nested_iterators_are_seen_where_they_belong() -> None:
    end = play(
        """
        - step: start
          tool:
            - outer:
                kind: iterator
                in: [a, b]
                iterator: x
                spec: {mode: parallel}
                tool:
                  - inner:
                      kind: iterator
                      in: [1, 2]
                      iterator: y
                      tool:
                        - write:
                            kind: noop
                            spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {log: {$append: "{{ iter.parent.x ~ iter.y }}"}}}}}]}}
                        - see: {kind: noop, result: "{{ ctx.log }}"}
                  - seen: {kind: noop, result: {inner: "{{ _prev }}", log: "{{ ctx.log }}"}}
            - after: {kind: noop, result: {items: "{{ _prev }}", log: "{{ ctx.log }}"}}
        """
    )
    assert end.state.result == {
        "items": [
            {"inner": [["a1"], ["a1", "a2"]], "log": ["a1", "a2"]},
            {"inner": [["b1"], ["b1", "b2"]], "log": ["b1", "b2"]},
        ],
        "log": ["a1", "a2", "b1", "b2"],
    }


# -- S32: a pause stops an iterator between its tasks -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_s32_nothing_begins_inside_an_iterator_while_paused(mode: str) -> None:
    calls: list[str] = []
    inside, go = asyncio.Event(), asyncio.Event()

    async def first(n: int) -> int:
        calls.append(f"first {n}")
        inside.set()
        await go.wait()
        return n

    def second(n: int) -> int:
        calls.append(f"second {n}")
        return n

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await asyncio.wait_for(inside.wait(), PATIENCE_SECONDS)
        await stage.handle(Pause())
        begun = list(calls)
        go.set()
        await asyncio.wait_for(driving, PATIENCE_SECONDS)
        assert stage.live().status == "paused"
        assert calls == begun
        assert len(stage.of("task.done")) == len(begun)
        await stage.handle(Resume())
        await stage.drive()

    end = play(
        f"""
        - step: start
          tool:
            - each:
                kind: iterator
                in: [0, 1, 2]
                iterator: n
                spec: {{mode: {mode}, max_in_flight: 2}}
                tool:
                  - first: {{kind: python, code: first, args: {{n: "{{{{ iter.n }}}}"}}}}
                  - second: {{kind: python, code: second, args: {{n: "{{{{ iter.n * 10 }}}}"}}}}
        """,
        tools={"first": first, "second": second},
        during=during,
    )
    assert end.state.result == [0, 10, 20]
    assert sorted(calls) == sorted([*(f"first {n}" for n in range(3)), *(f"second {n * 10}" for n in range(3))])


def test_s15_a_short_wait_is_waited_out_after_a_lost_worker() -> None:
    calls: list[float] = []
    slept = asyncio.Event()

    async def during(stage: Stage) -> None:
        nap = stage.clock.sleep

        async def stuck(seconds: float) -> None:
            slept.set()
            await asyncio.sleep(30)

        stage.clock.sleep = stuck  # type: ignore[method-assign]
        driving = asyncio.create_task(stage.drive())
        await asyncio.wait_for(slept.wait(), PATIENCE_SECONDS)
        await stage.until(lambda: bool(stage.of("task.retry.scheduled")))
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        await stage.crash()
        stage.clock.sleep = nap  # type: ignore[method-assign]
        await stage.drive()

    def work(context: Any) -> int:
        calls.append(context.now)
        return 1 // (len(calls) - 1)

    end = play(
        """
        - step: start
          tool:
            - t:
                kind: python
                code: work
                spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, delay: 4}}]}}
        """,
        tools={"work": work},
        during=during,
    )
    assert end.state.status == "succeeded"
    assert calls[1] - calls[0] >= 4


def test_s28_an_ok_call_that_is_requested_again_has_a_new_key_and_a_failed_one_keeps_it() -> None:
    answers = iter([failed("shaky", "no"), 1, 2, failed("shaky", "no"), 3])
    end = play(
        """
        - step: start
          tool:
            - t:
                kind: python
                code: f
                spec: {policy: {rules: [{when: "{{ outcome.status == 'error' or outcome.result < 3 }}", then: {do: retry, attempts: 9, delay: 0}}]}}
            - next: {kind: python, code: g}
        """,
        tools={"f": lambda: next(answers), "g": lambda: None},
    )
    assert end.state.status == "succeeded"
    *calls, after = end.registry.contexts
    action = calls[0].action
    assert {call.action for call in calls} == {action}
    assert [call.idempotency_key.removeprefix(action) for call in calls] == ["", "", ".1", ".2", ".2"]
    assert after.idempotency_key == after.action
