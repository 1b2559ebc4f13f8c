"""noetl explain, noetl runs fork, noetl runs retry: why a run went so, and how it goes on in a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from command import Done, file, noetl
from places import Place
from terminal import HEAD, data

CHAIN = (
    HEAD
    + """\
workflow:
  - {step: first, tool: {kind: shell, cmds: ["echo first >> FOLDER/calls"]}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: shell, cmds: ["echo second >> FOLDER/calls"]}, next: {arcs: [{step: third}]}}
  - {step: third, tool: {kind: noop, result: "{{ ctx.word | default('none') }}"}}
"""
)
BROKEN = CHAIN.replace("second >> FOLDER/calls", "second >> FOLDER/calls; test -f FOLDER/mended")


def runs(folder: Path, *args: str) -> Done:
    return noetl("runs", *args, cwd=folder)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def seq_of(folder: Path, name: str, run: str) -> str:
    events = data(runs(folder, "events", "last", "-o", "json"))
    return str(next(event["seq"] for event in events if (event["event_type"], event["step_run_id"]) == (name, run)))


def begun(folder: Path, text: str, code: int = 0) -> Any:
    done = noetl("run", file(folder, text.replace("FOLDER", str(folder))), "-o", "json", cwd=folder)
    assert done.code == code, done.err
    return msgspec.json.decode(done.out)


def sound(folder: Path) -> None:
    done = noetl("verify", cwd=folder)
    assert done.code == 0, done.out


def test_a_fork_ends_like_a_run_and_leaves_its_source_alone(tmp_path: Path) -> None:
    source = begun(tmp_path, CHAIN)
    at = seq_of(tmp_path, "step.done", "first#1")
    done = runs(tmp_path, "fork", "last", "--at", at, "--set-ctx", "word=7", "-o", "json")
    fork = data(done)
    assert (fork["status"], fork["result"], fork["ctx"]) == ("succeeded", 7, {"word": 7})
    assert fork.keys() == source.keys()
    assert fork["execution_id"] != source["execution_id"]
    assert calls(tmp_path) == ["first", "second", "second"]
    assert data(runs(tmp_path, "show", source["execution_id"], "-o", "json"))["result"] == "none"
    sound(tmp_path)


def test_people_are_told_what_is_kept_and_what_continues(tmp_path: Path) -> None:
    source = begun(tmp_path, CHAIN)
    done = runs(tmp_path, "fork", source["execution_id"][:-3], "--at", seq_of(tmp_path, "step.done", "first#1"))
    assert done.code == 0
    assert f"from {source['execution_id']}, up to its event " in done.err
    assert "  kept: first\n" in done.err
    assert done.err.count("first#1") == 0  # what the source did is not told again
    assert done.out == '"none"\n'


def test_a_fork_with_an_edited_playbook(tmp_path: Path) -> None:
    begun(tmp_path, CHAIN)
    edited = file(tmp_path, CHAIN.replace("'none'", "'edited'"), "edited.yaml")
    at = seq_of(tmp_path, "step.done", "second#1")
    assert data(runs(tmp_path, "fork", "last", "--at", at, "--playbook", edited, "-o", "json"))["result"] == "edited"
    assert data(runs(tmp_path, "show", "last", "-o", "json"))["result"] == "edited"
    assert runs(tmp_path, "show", "last").code == 0
    sound(tmp_path)


def test_what_cannot_be_forked_says_why(tmp_path: Path) -> None:
    begun(tmp_path, CHAIN)
    at = seq_of(tmp_path, "step.done", "first#1")
    other = file(tmp_path, HEAD + "workflow: [{step: else, tool: {kind: noop}}]\n", "other.yaml")
    wrong = file(tmp_path, HEAD + "workflow: [{step: else, tool: {kind: nope}}]\n", "wrong.yaml")
    for args, code, words in (
        ([], 6, "has ended after"),
        (["--at", "999"], 2, "event 999 not found"),
        (["--at", at, "--playbook", other], 6, "which it does not have"),
        (["--at", at, "--playbook", wrong], 3, "nope"),
        (["--at", at, "--playbook", "nothing.yaml"], 4, "nothing.yaml"),
        (["--at", at, "--set-ctx", "word"], 2, "KEY=VALUE"),
        (["--at", at, "--set-ctx", "a.b=1"], 2, "whole key"),
        (["--at", "0"], 2, "--at"),
    ):
        done = runs(tmp_path, "fork", "last", *args)
        assert (done.code, words in done.err) == (code, True), done.err
    assert runs(tmp_path, "fork", "nothing").code == 4
    assert len(data(runs(tmp_path, "list", "-o", "json"))) == 1


def test_a_retry_does_not_do_again_what_was_done(tmp_path: Path) -> None:
    source = begun(tmp_path, BROKEN, 1)
    assert source["error"]["step"] == "second"
    (tmp_path / "mended").touch()
    done = runs(tmp_path, "retry", "last")
    assert done.code == 0, done.err
    assert "  kept: first\n  again: second#1 at task task_1\n" in done.err
    assert calls(tmp_path) == ["first", "second", "second"]
    assert data(runs(tmp_path, "show", source["execution_id"], "-o", "json"))["status"] == "failed"
    sound(tmp_path)


def test_what_fails_again_exits_with_1_and_what_succeeded_cannot_be_retried(tmp_path: Path) -> None:
    begun(tmp_path, BROKEN, 1)
    assert runs(tmp_path, "retry", "last").code == 1
    (tmp_path / "mended").touch()
    assert runs(tmp_path, "retry", "last").code == 0
    done = runs(tmp_path, "retry", "last")
    assert (done.code, "there is nothing to retry" in done.err) == (6, True)
    sound(tmp_path)


ITEMS = (
    HEAD
    + """\
workload: {ending: mended}
workflow:
  - step: each
    loop: {in: [a, b, c], iterator: name, spec: {on_error: continue}}
    tool:
      - call:
          kind: shell
          cmds: ["echo {{ iter.name }} >> FOLDER/calls; test {{ iter.name }} != b -o -f FOLDER/{{ workload.ending }}"]
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: "{{ steps.each.result | select | list | length }} of 3"}}
"""
)


def test_a_retry_of_failed_items_runs_these_and_continues(tmp_path: Path) -> None:
    assert begun(tmp_path, ITEMS)["result"] == "2 of 3"
    (tmp_path / "mended").touch()
    done = runs(tmp_path, "retry", "last", "--failed-items")
    assert (done.code, done.out) == (0, '"3 of 3"\n'), done.err
    assert "  again: each#1, 1 item left\n" in done.err
    assert calls(tmp_path) == ["a", "b", "c", "b"]
    events = data(runs(tmp_path, "events", "last", "-o", "json"))
    last = next(event for event in reversed(events) if event["task_run_id"] == "each#1[1]/call#1")
    tasks = data(runs(tmp_path, "show", "last", "--tasks", "-o", "json"))["tasks"]
    assert next(task for task in tasks if task["item"] == 1)["duration_ms"] == last["payload"]["duration_ms"]
    done = runs(tmp_path, "retry", "last", "--failed-items")
    assert (done.code, "has no finished loop with failed items" in done.err) == (6, True)
    sound(tmp_path)


def test_a_retry_from_a_step_with_other_inputs(tmp_path: Path) -> None:
    assert begun(tmp_path, ITEMS)["result"] == "2 of 3"
    (tmp_path / "other").touch()
    again = data(runs(tmp_path, "retry", "last", "--from", "each", "--set", "ending=other", "-o", "json"))
    assert (again["status"], again["result"]) == ("succeeded", "3 of 3")
    assert runs(tmp_path, "retry", "last", "--from", "nothing").code == 4
    fork = data(runs(tmp_path, "fork", again["execution_id"], "--at", "1", "--set", "ending=gone", "-o", "json"))
    assert fork["result"] == "2 of 3"
    sound(tmp_path)


def test_warnings_about_the_payload_of_a_fork_are_printed_and_logged(place: Place) -> None:
    text = ITEMS.replace("FOLDER", str(place.folder))
    source = place.run(text)["execution_id"]
    (place.folder / "mended").touch()
    warning = "workload has no 'edning': did you mean 'ending'?"
    for verb in (("fork", source, "--at", "1"), ("retry", source, "--from", "each")):
        done = place("runs", *verb, "--payload", '{"edning": "x"}')
        assert (done.code, f"noetl: warning: {warning}\n" in done.err) == (0, True), done.err
        assert place.json("runs", "show", "last")["warnings"] == [warning]
        assert f"warning: {warning}\n" in place("runs", "show", "last").out
        (forked,) = (
            event for event in place.json("runs", "events", "last") if event["event_type"] == "execution.forked"
        )
        assert forked["payload"]["warnings"] == [warning]
    assert place.json("runs", "show", source)["warnings"] == []


def test_an_input_that_only_the_items_of_a_kept_loop_come_from_is_refused_or_a_warning(place: Place) -> None:
    text = ITEMS.replace("FOLDER", str(place.folder))
    head, _, tail = text.partition("loop: {in: ")
    text = head + 'loop: {in: "{{ workload.names }}"' + tail[tail.index(", iterator") :]
    text = text.replace("workload: {", "workload: {names: [a, b, c], ")
    source = place.run(text)["execution_id"]
    (place.folder / "mended").touch()
    message = "'names' has no effect: only `loop.in` of 'each' reads it, and its items are kept"
    for more in ([], ["--dry-run"]):
        refused = place("runs", "retry", source, "--failed-items", "--set", "names=[b]", *more)
        assert (refused.code, message in refused.err) == (2, True), refused.err
        warned = place("runs", "retry", source, "--failed-items", "--payload", '{"names": ["b"]}', *more)
        assert (warned.code, f"warning: {message}" in warned.err) == (0, True), warned.err
        other = place("runs", "retry", source, "--failed-items", "--set", "ending=mended", *more)
        assert (other.code, "has no effect" in other.err) == (0, False), other.err
        whole = place("runs", "retry", source, "--from", "each", "--set", "names=[b]", *more)
        assert (whole.code, "has no effect" in whole.err) == (0, False), whole.err


KEPT = (
    HEAD
    + """\
workload: {endpoints: [a, b], size: 1, both: 1, never: 1, last: 1}
executor: {spec: {final_step: over}}
workflow:
  - step: a
    tool: {kind: noop, result: "{{ workload.endpoints | length }} {{ both }}"}
    next: {arcs: [{step: never, when: "{{ size > 9 }}"}, {step: z}]}
  - {step: never, tool: {kind: noop, result: "{{ workload.never }}"}}
  - {step: z, tool: {kind: noop, result: "{{ workload.both }}"}}
  - {step: over, tool: {kind: noop, result: "{{ last }}"}}
"""
)


def test_an_input_that_only_kept_steps_read_is_refused_or_a_warning(place: Place) -> None:
    source = place.run(KEPT)["execution_id"]
    retry = ("runs", "retry", source, "--from", "z")
    for key, value, step in (("endpoints", '["q"]', "a"), ("size", "10", "a"), ("never", "2", "never")):
        message = f"{key!r} has no effect: only step {step!r} reads it, which does not run again; use `--from {step}`"
        for more in ([], ["--dry-run"]):
            refused = place(*retry, "--set", f"{key}={value}", *more)
            assert (refused.code, message in refused.err) == (2, True), refused.err
            warned = place(*retry, "--payload", f'{{"{key}": {value}}}', *more)
            assert (warned.code, f"warning: {message}" in warned.err) == (0, True), warned.err
    for verb in ((*retry, "--set", "both=2"), (*retry, "--set", "last=2"), (*retry[:4], "a", "--set", "endpoints=[q]")):
        other = place(*verb)
        assert (other.code, "has no effect" in other.err) == (0, False), other.err


def test_a_dry_run_prints_what_a_retry_or_a_fork_would_do(place: Place) -> None:
    text = ITEMS.replace("FOLDER", str(place.folder))
    source = place.run(text)["execution_id"]
    (place.folder / "mended").touch()
    runs_before = place.json("runs", "list")
    verbs = [("retry", source, "--failed-items"), ("retry", source, "--from", "each"), ("fork", source, "--at", "6")]
    previews = []
    for verb in verbs:
        done = place("runs", *verb, "--dry-run", "--payload", '{"edning": "x"}')
        assert (done.code, "warning: workload has no 'edning'" in done.err) == (0, True), done.err
        previews.append((done.out.splitlines(), place.json("runs", *verb, "--dry-run")))
    assert place.json("runs", "list") == runs_before
    for verb, (lines, preview) in zip(verbs, previews, strict=True):
        assert lines[0] == f"from {source}, up to its event {preview['source_seq']}"
        printed = [line for line in place("runs", *verb).err.splitlines() if not line.startswith("noetl: ")]
        assert printed[: len(lines)] == lines, "the real one prints something else"
    refused = place("runs", "retry", source, "--from", "nowhere", "--dry-run")
    assert (refused.code, f"run of step 'nowhere' not found in {source}: steps that ran: " in refused.err) == (4, True)


CHOICE = (
    HEAD
    + """\
workload: {limit: 3}
workflow:
  - step: start
    tool:
      - count:
          kind: noop
          result: 5
          spec: {policy: {rules: [{when: "{{ outcome.result > 9 }}", then: {do: fail}}, {else: {then: {do: break}}}]}}
    next: {arcs: [{step: low, when: "{{ steps.start.result < workload.limit }}"}, {step: high}]}
  - {step: low}
  - {step: high}
"""
)


def test_a_step_is_explained(tmp_path: Path) -> None:
    begun(tmp_path, CHOICE)
    told = noetl("explain", "last", "start", cwd=tmp_path)
    assert (told.code, told.err) == (0, "")
    assert (
        told.out
        == """\
start  succeeded, 1 run  playbook.yaml:6

6  start#1 starts with token 1

9  start#1/count#1, attempt 1: ok; break
    not matched  fail  when {{ outcome.result > 9 }}  playbook.yaml:11
                   outcome.result = 5
    matched      break  else  playbook.yaml:11

11  start#1 ended with step.done; continues with high (exclusive: the first that matches)
    not matched  low  when {{ steps.start.result < workload.limit }}  playbook.yaml:12
                   steps.start.result = 5
                   workload.limit = 3
    matched      high  always  playbook.yaml:12
"""
    )
    result = data(noetl("explain", "last", "start#1", "-o", "json", cwd=tmp_path))
    assert (result["run"], [decision["kind"] for decision in result["decisions"]]) == (
        "start#1",
        ["admission", "rules", "arcs"],
    )
    never = noetl("explain", "last", "low", cwd=tmp_path).out
    assert "low  never entered, 0 runs" in never
    assert "start did not lead here, see event 11" in never
    assert noetl("explain", "last", "strat", cwd=tmp_path).code == 4
    assert noetl("explain", "nothing", "start", cwd=tmp_path).code == 4


def test_some_decisions_one_event_and_one_moment_are_explained(tmp_path: Path) -> None:
    begun(tmp_path, CHOICE)
    text = noetl("explain", "last", "start", "--limit", "2", cwd=tmp_path).out
    assert "(decisions before event 9 are left out: --limit shows more of them, --at an earlier state)" in text
    assert "\n6  " not in text
    text = noetl("explain", "last", "--seq", "9", cwd=tmp_path).out
    assert text.startswith("start  ")
    assert "\n9  start#1/count#1, attempt 1: ok; break\n" in text
    assert text.endswith("    result: 5\n")
    then = data(noetl("explain", "last", "start", "--at", "7", "-o", "json", cwd=tmp_path))
    assert (then["status"], [decision["seq"] for decision in then["decisions"]]) == ("running", [6])
    missing = noetl("explain", "last", "start", "--item", "0", cwd=tmp_path)
    assert (missing.code, missing.err) == (4, "noetl: item 0 of step 'start' not found: it has no items\n")
    for wrong in (["start", "--seq", "9"], ["--item", "1"], ["--seq", "9", "--at", "3"]):
        assert noetl("explain", "last", *wrong, cwd=tmp_path).code == 2
    assert "is not a decision" in noetl("explain", "last", "--seq", "1", cwd=tmp_path).err


def test_a_log_is_replayed_compared_and_exported(tmp_path: Path) -> None:
    first = begun(tmp_path, CHOICE)
    result = data(noetl("runs", "replay", "last", "-o", "json", cwd=tmp_path))
    assert list(result) == ["execution_id", "events", "status", "ctx", "steps", "equal"]
    assert (result["events"], result["equal"], result["steps"]) == (first["events"], True, first["steps"])
    edited = file(tmp_path, CHOICE.replace("result < workload.limit", "result > workload.limit"), "edited.yaml")
    done = runs(tmp_path, "replay", "last", "--playbook", edited, "-o", "json")
    result = msgspec.json.decode(done.out)
    difference = result["first_difference"]
    assert (done.code, result["equal"], difference["event_type"]) == (1, False, "next.evaluated")
    assert (difference["logged"]["selected"], difference["replayed"]["selected"]) == ([1], [0])
    same = data(runs(tmp_path, "replay", "last", "--playbook", str(tmp_path / "playbook.yaml"), "-o", "json"))
    assert (same["equal"], same["first_difference"]) == (True, None)

    second = msgspec.json.decode(noetl("run", edited, "-o", "json", cwd=tmp_path).out)
    done = runs(tmp_path, "diff", first["execution_id"], "last", "-o", "json")
    result = msgspec.json.decode(done.out)
    assert (done.code, result["equal"]) == (1, False)
    assert (result["a"], result["b"]) == (first["execution_id"], second["execution_id"])
    assert result["steps"]["low"] == {"a": None, "b": second["steps"]["low"]}
    assert result["first_difference"]["seq"] == 1  # another playbook
    done = runs(tmp_path, "diff", "last", second["execution_id"])
    assert (done.code, "no difference" in done.out) == (0, True)

    full = runs(tmp_path, "export", "last", "-f", "/dev/full")
    assert (full.code, full.err) == (1, "noetl: cannot write /dev/full: No space left on device\n")
    done = runs(tmp_path, "export", "last", "-f", "out.json")
    assert done.code == 0, done.err
    exported = msgspec.json.decode((tmp_path / "out.json").read_bytes())
    assert list(exported) == ["execution", "playbook", "events", "logs", "results"]
    assert exported["playbook"]["text"] == Path(edited).read_text()
    assert len(exported["events"]) == exported["execution"]["events"] == second["events"]


def test_a_boolean_and_a_number_differ(tmp_path: Path) -> None:
    for value in ("true", "1"):
        begun(tmp_path, HEAD + f"workflow: [{{step: a, tool: {{kind: noop, result: {value}}}}}]\n")
    done = runs(tmp_path, "diff", "last~1", "last", "-o", "json")
    compared = msgspec.json.decode(done.out)
    assert (done.code, compared["equal"], compared["result"]) == (1, False, {"a": True, "b": 1})


def test_the_first_difference_of_a_fork_is_what_follows_from_it(tmp_path: Path) -> None:
    source = begun(tmp_path, CHOICE)["execution_id"]
    at = seq_of(tmp_path, "task.started", "start#1")
    same = data(runs(tmp_path, "fork", source, "--at", at, "-o", "json"))
    assert data(runs(tmp_path, "diff", source, same["execution_id"], "-o", "json"))["equal"] is True
    edited = file(tmp_path, CHOICE.replace("result < workload.limit", "result > workload.limit"), "edited.yaml")
    fork = data(runs(tmp_path, "fork", source, "--at", at, "--playbook", edited, "-o", "json"))
    done = runs(tmp_path, "diff", source, fork["execution_id"], "-o", "json")
    first = msgspec.json.decode(done.out)["first_difference"]
    assert (first["a"]["event_type"], first["a"]["selected"], first["b"]["selected"]) == ("next.evaluated", [1], [0])
    assert first["b_seq"] == first["a_seq"] + 3  # the fork, a lease and the beginning of the task come before
    done = runs(tmp_path, "diff", source, fork["execution_id"])
    assert f"event {first['a_seq']} of a, {first['b_seq']} of b\n  a: {{" in done.out


def test_an_export_has_the_contents_of_references(tmp_path: Path) -> None:
    begun(tmp_path, HEAD + "workflow: [{step: a, tool: {kind: noop, result: \"{{ 'x' * 70000 }}\"}}]\n")
    exported = msgspec.json.decode(runs(tmp_path, "export", "last", "-f", "-").out)
    key = exported["execution"]["result"]["key"]
    assert exported["results"] == {key: "x" * 70000}


def test_r15_events_are_listed_by_any_of_their_names(tmp_path: Path) -> None:
    begun(tmp_path, CHAIN)
    listed = data(runs(tmp_path, "events", "last", "--type", "tool.processed", "--type", "TokenClaimed", "-o", "json"))
    assert {event["event_type"] for event in listed} == {"task.done", "step.scheduled"}
    wrong = runs(tmp_path, "events", "last", "--type", "task.procesed")
    assert (wrong.code, "did you mean 'task.processed'?" in wrong.err) == (2, True)


def test_events_are_filtered_by_step_run_level_and_text(tmp_path: Path) -> None:
    begun(tmp_path, HEAD + LOOP)
    listed = data(runs(tmp_path, "events", "last", "--run", "start#1", "--item", "1", "--level", "task", "-o", "json"))
    assert {one["iteration_id"] for one in listed} == {"start#1[1]"}
    assert [event["event_type"] for event in listed][-1] == "loop.iteration.done"
    steps = data(runs(tmp_path, "events", "last", "--level", "step", "-o", "json"))
    assert not {"task.done", "loop.iteration.done", "token.enqueued"} & {step["event_type"] for step in steps}
    (event,) = data(runs(tmp_path, "events", "last", "--grep", "LOOP OVER 3", "-o", "json"))
    assert event["event_type"] == "loop.started"
    for run, item in (("start#2", ()), ("start#1", ("--item", "9"))):
        missing = runs(tmp_path, "events", "last", "--run", run, *item)
        named = run + "".join(f"[{index}]" for index in item[1:])
        advice = "`noetl runs show last` lists the steps with the number of their runs"
        assert (missing.code, missing.out, missing.err) == (4, "", f"noetl: {named} has no events: {advice}\n")
    wrong = runs(tmp_path, "events", "last", "--run", "start")
    assert (wrong.code, "write the number of the step run, too, such as 'start#1'" in wrong.err) == (2, True)
    wrong = runs(tmp_path, "events", "last", "--item", "1")
    assert (wrong.code, "--item requires --run" in wrong.err) == (2, True)


LOOP = """\
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: [{work: {kind: noop, result: "{{ iter.n }}"}}]
"""
