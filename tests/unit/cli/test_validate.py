"""`noetl validate`: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command import BAD, CLASSIC, GOOD, SECONDS, WARNED, Done, environment, file, noetl

FIELDS = ["file", "line", "column", "code", "severity", "message", "hint"]
RANGE = ["end_line", "end_column", "path", "fix"]


class TestExitCode:
    def test_a_sound_playbook_is_zero(self, tmp_path: Path) -> None:
        assert noetl("validate", file(tmp_path, GOOD)).code == 0

    def test_warnings_alone_are_zero(self, tmp_path: Path) -> None:
        done = noetl("validate", file(tmp_path, WARNED))
        assert done.code == 0
        assert "warning NTL115" in done.out

    def test_an_error_is_three(self, tmp_path: Path) -> None:
        assert noetl("validate", file(tmp_path, BAD)).code == 3

    def test_one_bad_file_among_good_ones_is_three(self, tmp_path: Path) -> None:
        good, bad = file(tmp_path, GOOD, "good.yaml"), file(tmp_path, BAD, "bad.yaml")
        assert noetl("validate", good, bad, good).code == 3

    def test_a_classic_playbook_is_sound_unless_strict(self, tmp_path: Path) -> None:
        assert noetl("validate", file(tmp_path, CLASSIC)).code == 0
        strict = noetl("validate", "--strict", file(tmp_path, CLASSIC))
        assert strict.code == 3
        assert "NTL114" in strict.out
        assert f"rewrite it with `noetl migrate {file(tmp_path, CLASSIC)}`\n" in strict.out

    @pytest.mark.parametrize(
        "args", [["validate"], ["validate", "--nope", "x"], ["validate", "-o", "xml", "x"], ["valid"]]
    )
    def test_a_usage_error_is_two(self, args: list[str]) -> None:
        done = noetl(*args)
        assert done.code == 2
        assert done.out == ""
        assert "Error:" in done.err

    def test_an_unknown_verb_is_guessed(self) -> None:
        assert "did you mean 'validate'?" in noetl("validte", "x").err


class TestFilesThatCannotBeRead:
    def test_a_missing_file_is_four(self, tmp_path: Path) -> None:
        done = noetl("validate", "nothing.yaml", cwd=tmp_path)
        assert done == Done(4, "", "noetl: no such file: nothing.yaml\n")

    def test_a_folder_is_four(self, tmp_path: Path) -> None:
        done = noetl("validate", str(tmp_path))
        assert done.code == 4
        assert "directory" in done.err

    def test_a_loop_of_links_is_four(self, tmp_path: Path) -> None:
        (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
        assert noetl("validate", str(tmp_path / "loop.yaml")).code == 4

    def test_a_name_that_is_too_long_is_four(self) -> None:
        assert noetl("validate", "x" * 5000).code == 4

    @pytest.mark.skipif(os.geteuid() == 0, reason="root can read anything")
    def test_a_file_without_permission_is_four(self, tmp_path: Path) -> None:
        name = file(tmp_path, GOOD)
        Path(name).chmod(0)
        assert noetl("validate", name).code == 4

    def test_the_other_files_are_still_checked(self, tmp_path: Path) -> None:
        done = noetl("validate", "nothing.yaml", file(tmp_path, BAD), cwd=tmp_path)
        assert done.code == 4
        assert "NTL202" in done.out
        assert "no such file" in done.err

    def test_a_file_of_a_gigabyte_is_not_read_to_its_end(self, tmp_path: Path) -> None:
        with (tmp_path / "large.yaml").open("wb") as large:
            large.truncate(1 << 30)
        done = noetl("validate", str(tmp_path / "large.yaml"))
        assert done.code == 3
        assert "NTL003" in done.out


class TestStandardInput:
    def test_is_read_for_a_dash(self) -> None:
        assert noetl("validate", "-", stdin=GOOD).code == 0

    def test_has_a_name_of_its_own(self) -> None:
        (problem, *_) = json.loads(noetl("validate", "-", "-o", "json", stdin=BAD).out)
        assert problem["file"] == "<stdin>"

    def test_may_be_empty(self) -> None:
        assert noetl("validate", "-").code == 3

    def test_may_be_no_text(self) -> None:
        done = noetl("validate", "-", stdin=b"\x00\xff\xfe")
        assert done.code == 3
        assert "NTL001" in done.out

    def test_may_be_closed(self) -> None:
        done = subprocess.run(
            ["bash", "-c", f"exec {sys.executable} -m noetl.cli validate - <&-"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 4
        assert b"Traceback" not in done.stderr


class TestOutput:
    def test_json_has_exactly_these_fields(self, tmp_path: Path) -> None:
        name = file(tmp_path, BAD)
        problems = json.loads(noetl("validate", "-o", "json", name).out)
        assert [list(problem) for problem in problems] == [FIELDS + RANGE, FIELDS + RANGE]
        assert problems[0] == {
            "file": name,
            "line": 6,
            "column": 18,
            "code": "NTL202",
            "severity": "error",
            "message": "unknown tool kind 'nop'",
            "hint": "did you mean 'noop'?",
            "end_line": 6,
            "end_column": 21,
            "path": [],
            "fix": {"text": "noop"},
        }

    def test_json_of_a_sound_playbook_is_an_empty_list(self, tmp_path: Path) -> None:
        assert json.loads(noetl("validate", "-o", "json", file(tmp_path, GOOD)).out) == []

    def test_json_of_several_files_is_one_list(self, tmp_path: Path) -> None:
        names = [file(tmp_path, BAD, "one.yaml"), file(tmp_path, WARNED, "two.yaml")]
        problems = json.loads(noetl("validate", *names, "-o", "json").out)
        assert list(dict.fromkeys(problem["file"] for problem in problems)) == names
        assert {problem["severity"] for problem in problems} == {"error", "warning"}

    def test_jsonl_has_a_problem_on_each_line(self, tmp_path: Path) -> None:
        lines = noetl("validate", "-o", "jsonl", file(tmp_path, BAD)).out.splitlines()
        assert [list(json.loads(line)) for line in lines] == [FIELDS + RANGE, FIELDS + RANGE]

    def test_yaml_says_the_same_as_json(self, tmp_path: Path) -> None:
        name = file(tmp_path, BAD)
        done = noetl("validate", "-o", "yaml", name)
        assert yaml.safe_load(done.out) == json.loads(noetl("validate", "-o", "json", name).out)

    def test_a_table_has_a_line_for_each_problem(self, tmp_path: Path) -> None:
        head, *lines = noetl("validate", "-o", "table", file(tmp_path, BAD)).out.splitlines()
        assert head.split() == FIELDS
        assert len(lines) == 2

    @pytest.mark.parametrize("output", ["jsonl", "table"])
    def test_nothing_found_is_nothing_printed(self, tmp_path: Path, output: str) -> None:
        assert noetl("validate", "-o", output, file(tmp_path, GOOD)) == Done(0, "", "")

    def test_for_people_problems_go_to_stdout_and_the_verdict_to_stderr(self, tmp_path: Path) -> None:
        name = file(tmp_path, BAD)
        done = noetl("validate", name)
        assert done.out.startswith(f"{name}:6:18: error NTL202: unknown tool kind 'nop'\n")
        assert "6 |     tool: {kind: nop}\n  |                  ^\n  = did you mean 'noop'?\n" in done.out
        assert done.err == f"{name}: 2 errors, 0 warnings\n"

    def test_a_very_long_line_is_shown_around_the_fault(self, tmp_path: Path) -> None:
        text = GOOD.replace("{name: good,", "{name: good, pad: " + "x" * 300 + ", path: tests/good, path: again,")
        lines = noetl("validate", file(tmp_path, text)).out.splitlines()
        assert max(map(len, lines)) < 200
        source, caret = lines[1], lines[2]
        assert source[caret.index("^") :].startswith("path: again")

    def test_a_line_longer_than_any_screen_is_no_crash(self, tmp_path: Path) -> None:
        text = f"{{{'x: 1, ' * 3000} y: [}}"
        assert noetl("validate", file(tmp_path, text)).code == 3

    def test_control_characters_of_the_file_do_not_reach_the_terminal(self, tmp_path: Path) -> None:
        done = noetl("validate", file(tmp_path, "a: \x1b[31mred\x1b[0m\n"))
        assert done.code == 3
        assert "\x1b" not in done.out

    def test_names_that_are_no_utf8_are_printed_all_the_same(self, tmp_path: Path) -> None:
        name = os.fsencode(tmp_path) + b"/\xff.yaml"
        Path(os.fsdecode(name)).write_text(BAD)
        assert json.loads(noetl("validate", "-o", "json", name).out)[0]["file"].endswith("/\ufffd.yaml")
        assert noetl("validate", name).code == 3


def on_a_terminal(name: str, **env: str) -> str:
    """What the command shows on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", "validate", name],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**{"TERM": "xterm"} | env),
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:
        pass  # the other end was closed
    process.wait(SECONDS)
    os.close(ours)
    return shown.decode()


class TestColour:
    def test_a_terminal_gets_colours(self, tmp_path: Path) -> None:
        assert "\x1b[" in on_a_terminal(file(tmp_path, BAD))

    def test_no_color_is_obeyed(self, tmp_path: Path) -> None:
        assert "\x1b[" not in on_a_terminal(file(tmp_path, BAD), NO_COLOR="1")
        assert "\x1b[" not in on_a_terminal(file(tmp_path, BAD), TERM="dumb")

    def test_a_pipe_gets_none(self, tmp_path: Path) -> None:
        done = noetl("validate", file(tmp_path, BAD), TERM="xterm-256color")
        assert "\x1b[" not in done.out + done.err


class TestStreamsThatBreak:
    def test_a_reader_that_leaves_early_is_no_error_to_talk_about(self, tmp_path: Path) -> None:
        name = file(tmp_path, GOOD.split("workflow:")[0] + "x: 1\n" * 3000)
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m noetl.cli validate -o jsonl {name} | head -1"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == b""

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_a_full_disk_is_reported_in_one_line(self, tmp_path: Path) -> None:
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m noetl.cli validate -o json {file(tmp_path, BAD)} > /dev/full"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr == b"noetl: cannot write: No space left on device\n"
