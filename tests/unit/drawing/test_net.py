from __future__ import annotations

import pytest

from noetl.drawing.net import DrawnNet, Edge, catches_failure, duration, net_of, one_line
from noetl.model.playbook import Playbook, Task

from .nets import BRANCH, CLASSIC, FAN, HOSTILE, MIXED, POLL, playbook, step


def edge(book: Playbook, source: str, target: str) -> Edge:
    net = net_of(book)
    return next(each for each in net.edges if ends(net, each) == (source, target))


def ends(net: DrawnNet, edge: Edge) -> tuple[str, str]:
    return net.nodes[edge.source].name, net.nodes[edge.target].name


def badges(book: Playbook, name: str) -> list[str]:
    node = next(node for node in net_of(book).nodes if node.name == name)
    return [badge.text for badge in node.badges]


def test_guards_lose_their_braces() -> None:
    assert edge(BRANCH, "fetch", "big").label == "n > 9"


def test_unguarded_arc_after_guarded_ones_reads_else() -> None:
    assert edge(BRANCH, "fetch", "small").label == "else"
    assert edge(BRANCH, "big", "done").label == ""


def test_long_guard_is_short_at_the_line_and_full_in_the_tooltip() -> None:
    long = edge(MIXED, "validate", "orders")
    assert len(long.label) <= 40
    assert long.label.endswith("…")
    assert long.guard in net_of(MIXED).tooltip(long)


def test_delay_is_part_of_the_label() -> None:
    assert edge(POLL, "poll", "poll").label == "not ready · after 30s"


@pytest.mark.parametrize(
    ("guard", "catches"),
    [
        ("{{ event.name == 'step.failed' }}", True),
        ("{{ event.name == 'step.done' }}", False),
        ("{{ event.name != 'step.failed' }}", False),
        ("{{ fetch.status == 'error' }}", True),
        ("{{ fetch.status == 'ok' }}", False),
        ("{{ steps.fetch.error is defined }}", True),
        ("{{ steps['fetch'].error }}", True),
        ("{{ other.error }}", False),
        ("{{ response.status_code == 500 }}", False),
        (True, False),
        (None, False),
    ],
)
def test_arcs_that_catch_failure(guard: str | bool | None, catches: bool) -> None:
    assert catches_failure(guard, "fetch") is catches


def test_badges_tell_how_a_step_runs() -> None:
    assert badges(MIXED, "extract") == ["loop parallel ×8", "timeout 5m"]
    assert badges(MIXED, "orders") == ["loop sequential"]
    assert badges(MIXED, "publish") == ["admit gate"]
    assert badges(MIXED, "notify") == ["timers reminder 10m"]
    assert badges(MIXED, "cleanup") == ["final"]
    assert badges(FAN, "sum") == ["join all"]
    assert badges(FAN, "start") == ["fan-out all"]
    assert badges(CLASSIC, "call") == ["on event"]


def test_gate_badge_says_its_rules() -> None:
    node = next(node for node in net_of(MIXED).nodes if node.name == "publish")
    assert node.badges[0].title == "allow when ctx.open; hold otherwise"


def test_jump_is_shown_with_its_task() -> None:
    node = next(node for node in net_of(MIXED).nodes if node.name == "extract")
    assert [line.text for line in node.tasks] == ["fetch_page · http", "paginate · python ↑ fetch_page"]


def test_inner_pipeline_is_indented_and_a_long_one_is_cut() -> None:
    inner = step("a", pipeline=(Task("each", "iterator", body=(Task("get", "http"),)),))
    assert [line.text for line in net_of(playbook(inner)).nodes[0].tasks] == [
        "each · iterator",
        "  get · http",
    ]
    many = step("a", pipeline=tuple(Task(f"t{n}", "noop") for n in range(20)))
    assert net_of(playbook(many)).nodes[0].tasks[-1].text == "… 9 more"


def test_classic_gotos_are_edges_labelled_by_their_branch() -> None:
    assert edge(CLASSIC, "call", "saved").label == "response.status_code == 200"
    assert edge(CLASSIC, "call", "later").label == "else · after 5s"
    assert edge(CLASSIC, "call", "rest").label == ""
    computed = edge(CLASSIC, "call", "?")
    assert computed.guard == "event.name == 'call.error', to vars.target"
    assert computed.failure


def test_classic_calls_and_sink_are_in_the_box() -> None:
    lines = [line.text for line in net_of(CLASSIC).nodes[0].tasks]
    assert lines == ["get · http", "case_0/save · postgres", "sink · duckdb"]


def test_unknown_target_becomes_a_node_of_its_own() -> None:
    net = net_of(CLASSIC)
    assert [node.name for node in net.nodes if node.role == "missing"] == ["nowhere"]


def test_step_named_like_the_computed_node_stays_apart() -> None:
    net = net_of(playbook(step("a", "?", "{{ x }}"), step("?")))
    assert [(node.name, node.role) for node in net.nodes[1:]] == [("?", "step"), ("?", "computed")]


def test_entry_that_does_not_exist_is_no_entry() -> None:
    assert net_of(playbook(step("a"), entry="b")).entry is None


def test_text_is_one_printable_line() -> None:
    assert one_line(HOSTILE).isprintable()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (0.5, "0.5s"), (90, "90s"), (120, "2m"), (7200, "2h"), (86400, "1d")]
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
