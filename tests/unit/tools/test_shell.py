"""kind: shell against real processes. After every test no process and no folder may be left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.model.outcome import Failure, Outcome
from noetl.shell_text import prepare_shell
from noetl.tools.base import Context
from noetl.tools.shell import Inputs, close, run

T = TypeVar("T")
SECRET = "open-sesame-1"


def hide(value: Any) -> Any:
    return value.replace(SECRET, "***") if isinstance(value, str) else value


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors, children = len(os.listdir("/proc/self/fd")), _children()
    yield
    assert _children() <= children  # other tests may keep processes of their own
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert not list(tmp_path.glob("noetl-*"))


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def play(story: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await story()
        finally:
            await close()

    return asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (nobody could set an event: processes are looked at)
        await asyncio.sleep(0.01)


def context(bound: dict[str, Any], **more: Any) -> Context:
    plain: dict[str, Any] = {
        "execution": "e1",
        "action": "action-1",
        "attempt": 2,
        "step": "step",
        "task": "task",
        "timeout": None,
        "args": {},
        "prev": None,
        "log": lambda stream, line: None,
        "redact": hide,
    }
    return Context(**plain | {"bound": bound} | more)


def call(given: str | list[Any], scope: dict[str, Any] | None = None, **more: Any) -> Awaitable[Outcome]:
    """A call as the worker makes it: texts are bound, lists are words."""
    known = {name: more.pop(name) for name in ("log", "spec", "credential") if name in more}
    if isinstance(given, str):
        return run(Inputs(command=given, **more), context({"command": prepare_shell(given)(scope or {})}, **known))
    bound = [prepare_shell(one)(scope or {}) if isinstance(one, str) else None for one in given]
    return run(Inputs(cmds=given, **more), context({"cmds": bound}, **known))


def outcome(given: str | list[Any], scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
    return play(lambda: call(given, scope, **more))


def stdout(given: str | list[Any], scope: dict[str, Any] | None = None, **more: Any) -> str:
    result = outcome(given, scope, **more)
    assert result.error is None, result.error
    assert result.extra == {"shell": {"exit_code": 0}}
    return str(result.result["stdout"])


def failure(given: str | list[Any], scope: dict[str, Any] | None = None, **more: Any) -> tuple[str, str]:
    result = outcome(given, scope, **more)
    assert result.error is not None
    assert "exit_code" in result.extra["shell"]
    return result.error.kind, result.error.message


class TestCommands:
    def test_result_is_exit_code_and_both_streams(self) -> None:
        assert outcome("echo out; echo err >&2").result == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}

    def test_commands_run_in_order_in_one_folder_and_the_last_is_the_result(self) -> None:
        assert stdout(["echo first > file", ["cp", "file", "copy"], "cat copy; ls"]) == "first\ncopy\nfile\n"

    def test_the_first_that_fails_is_the_last(self, tmp_path: Path) -> None:
        result = outcome([f"touch {tmp_path}/one", "echo out; echo no luck >&2; exit 3", f"touch {tmp_path}/two"])
        assert result.error is not None
        assert (result.error.kind, result.error.retryable) == ("exit_code", False)
        assert result.error.message == "/bin/sh ended with exit code 3: no luck"
        assert result.error.details == {"exit_code": 3, "stdout": "out\n", "stderr": "no luck\n"}
        assert result.extra == {"shell": {"exit_code": 3}}
        assert [path.name for path in tmp_path.iterdir()] == ["one"]

    def test_a_list_of_words_has_no_shell(self) -> None:
        assert stdout([["echo", "$HOME", "a  b", "*", "; exit 1"]]) == "$HOME a  b * ; exit 1\n"

    def test_templates_are_data(self) -> None:
        assert stdout("printf '<%s>' {{ x }} '{{ x }}'", {"x": "'; exit 1; $(id)"}) == "<'; exit 1; $(id)>" * 2

    def test_values_are_not_in_the_arguments_of_a_process(self) -> None:
        assert "marker" not in stdout("tr '\\0' ' ' < /proc/$$/cmdline; : {{ x }}", {"x": "marker"})

    def test_one_text_is_one_command(self) -> None:
        text = "a=1\necho $a\n"
        given = Inputs(cmds=text)
        stage = play(lambda: run(given, context({"cmds": prepare_shell(text)({})})))
        assert stage.result["stdout"] == "1\n"

    def test_text_that_was_not_bound_is_not_run(self) -> None:
        for given in (Inputs(command="echo x"), Inputs(cmds=["echo x"])):
            stage = play(lambda given=given: run(given, context({})))
            assert stage.error is not None
            assert stage.error.kind == "internal"

    @pytest.mark.parametrize(
        ("given", "more", "kind", "says"),
        [
            pytest.param(
                [["no-such-program", "a"]], {}, "not_found", "program 'no-such-program' is not on", id="program"
            ),
            pytest.param([["/etc/passwd"]], {}, "input", "cannot be run: permission denied", id="not executable"),
            pytest.param("echo", {"shell": "/no/shell"}, "not_found", "program '/no/shell' is not on", id="shell"),
            pytest.param("echo", {"cwd": "/no/folder"}, "not_found", "'/no/folder' does not exist", id="folder"),
            pytest.param([[]], {}, "input", "command 1 is an empty list", id="empty list"),
            pytest.param([], {}, "input", "no command", id="no command"),
            pytest.param([["echo", "a\0b"]], {}, "input", "NUL", id="NUL in a word"),
            pytest.param("echo", {"env": {"A": "a\0b"}}, "input", "variable A has the character NUL", id="NUL"),
            pytest.param("echo", {"env": {"A=B": "a"}}, "input", "cannot be the name", id="name of a variable"),
            pytest.param("echo", {"env": {"A": "x" * 200_000}}, "too_large", "variable A", id="large variable"),
            pytest.param([["echo", "x" * 200_000]], {}, "too_large", "argument 1", id="large argument"),
            pytest.param("cat", {"stdin": "\ud800"}, "input", "a lone surrogate", id="input that is no text"),
            pytest.param([["echo", "\ud800"]], {}, "input", "a lone surrogate", id="argument that is no text"),
            pytest.param("echo", {"env": {"A": "\ud800"}}, "input", "a lone surrogate", id="variable that is no text"),
            pytest.param("kill -9 $$", {}, "exit_code", "was killed by SIGKILL", id="signal"),
            pytest.param("echo", {"spec": {"sandbox": {"kind": "magic"}}}, "input", "spec.sandbox", id="sandbox"),
        ],
    )
    def test_what_cannot_be_run(self, given: Any, more: dict[str, Any], kind: str, says: str) -> None:
        found_kind, message = failure(given, **more)
        assert (found_kind, says in message) == (kind, True), message

    @pytest.mark.parametrize(
        ("command", "retryable"), [("kill -9 $$", True), ("kill -TERM $$", False), ("exit 9", False)]
    )
    def test_a_program_that_was_killed_may_be_repeated(self, command: str, retryable: bool) -> None:
        error = outcome(command).error
        assert error is not None
        assert error.retryable is retryable

    def test_templates_need_a_shell_that_understands_references(self) -> None:
        kind, message = failure("echo {{ x }}", {"x": 1}, shell="/usr/bin/fish")
        assert (kind, "'fish'" in message) == ("input", True)

    def test_bash(self) -> None:
        assert stdout('a=({{ x }} 2); echo "${a[@]}"', {"x": "1 0"}, shell="bash") == "1 0 2\n"


class TestSurroundings:
    def test_environment_is_small_and_holds_nothing_of_the_engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NOETL_TOKEN", SECRET)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.delenv("HOME", raising=False)
        names = {line.partition("=")[0] for line in stdout("env", env={"MINE": 1, "FLAG": True}).splitlines()}
        own = {"TMPDIR", "NOETL_ACTION_ID", "NOETL_EXECUTION_ID", "NOETL_ATTEMPT", "MINE", "FLAG"}
        assert own <= names
        assert names <= own | {
            "PATH",
            "LANG",
            "LC_ALL",
            "TZ",
            "USER",
            "LOGNAME",
            "PWD",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        }

    def test_what_a_program_is_told_of_its_call(self) -> None:
        text = "echo $NOETL_ACTION_ID $NOETL_EXECUTION_ID $NOETL_ATTEMPT $FLAG $NUMBER ${HOME:-none}"
        env = {"FLAG": True, "NUMBER": 1.5, "HOME": None}
        assert stdout(text, env=env).split() == ["action-1", "e1", "2", "true", "1.5", "none"]

    def test_folder_is_fresh_and_private(self) -> None:
        result = stdout("pwd; ls -A | wc -l; stat -c %a .; [ $TMPDIR = $PWD ] && echo same").split()
        assert result[1:] == ["0", "700", "same"]
        assert not Path(result[0]).exists()

    def test_a_folder_of_the_author_is_kept(self, tmp_path: Path) -> None:
        assert stdout("pwd > here; cat here", cwd=str(tmp_path)) == f"{tmp_path}\n"
        assert (tmp_path / "here").exists()

    def test_input(self) -> None:
        assert stdout("cat", stdin="žluť\n" * 100_000) == "žluť\n" * 100_000
        assert stdout("cat; echo end") == "end\n"

    def test_fields_of_a_credential_are_variables(self) -> None:
        async def credential(auth: Any) -> dict[str, Any]:
            assert auth == "shop"
            return {"kind": "basic", "username": "ada", "password": SECRET}

        text = "echo $NOETL_AUTH_USERNAME ${NOETL_AUTH_PASSWORD%-1} $NOETL_AUTH_KIND"
        assert stdout(text, auth="shop", credential=credential) == "ada open-sesame basic\n"

    def test_a_credential_that_is_missing(self) -> None:
        async def credential(auth: Any) -> dict[str, Any]:
            raise Failure("auth", "the keychain has no entry 'shop'")

        assert failure("echo", auth="shop", credential=credential) == ("auth", "the keychain has no entry 'shop'")

    def test_a_secret_in_an_argument_is_refused(self, tmp_path: Path) -> None:
        kind, message = failure([["touch", f"{tmp_path}/{SECRET}"]])
        assert kind == "input"
        assert "pass it by `env`, `stdin` or `auth`" in message
        assert not list(tmp_path.iterdir())

    def test_a_secret_in_a_text_goes_by_the_environment(self) -> None:
        assert stdout("printf %s {{ x }} | wc -c", {"x": SECRET}) == f"{len(SECRET)}\n"


class TestOutput:
    def test_lines_come_while_the_command_runs(self) -> None:
        lines: list[tuple[str, str]] = []

        async def story() -> None:
            text = "echo one; echo two >&2; printf three; until [ -e go ]; do sleep 0.01; done"
            task = asyncio.ensure_future(call(text, cwd=tempfile.gettempdir(), log=lambda *line: lines.append(line)))
            await until(lambda: len(lines) >= 2)
            os.close(os.open(f"{tempfile.gettempdir()}/go", os.O_CREAT))
            await task

        play(story)
        assert sorted(lines) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]

    def test_a_mebibyte_is_kept_and_the_result_reports_it(self) -> None:
        lines: list[str] = []
        text = "yes 12345678901234567890123456789012345678901234567890 | head -c 3000000; echo end"
        result = outcome(text, log=lambda stream, line: lines.append(line)).result
        assert len(result["stdout"]) == 1024 * 1024
        assert (result["stderr"], result["cut"]) == ("", ["stdout"])
        assert lines[-1].endswith("end")
        assert sum(map(len, lines)) + len(lines) >= 3_000_000

    def test_an_error_has_the_end_of_the_output(self) -> None:
        result = outcome("yes | head -c 3000000; echo last words; exit 1")
        assert result.error is not None
        assert result.error.details["stdout"].endswith("y\nlast words\n")
        assert len(result.error.details["stdout"]) == 8192

    def test_a_flood_does_not_fill_the_log(self) -> None:
        lines: list[str] = []
        outcome("yes | head -c 10000000", log=lambda stream, line: lines.append(line))
        assert len(lines) == 200_001
        assert lines[-1] == "[output of this call beyond 200,000 lines is dropped]"

    def test_a_line_without_end_comes_in_pieces(self) -> None:
        lines: list[str] = []
        outcome("head -c 1000000 /dev/zero | tr '\\0' x", log=lambda stream, line: lines.append(line))
        assert "".join(lines) == "x" * 1_000_000
        assert max(map(len, lines)) <= 16 * 1024

    def test_bytes_that_are_no_text(self) -> None:
        assert stdout("printf 'a\\377b'") == "a�b"

    @pytest.mark.parametrize("before", [0, 16_380, 65_530, 1_048_570, 1_048_576 + 16_380])
    def test_a_secret_is_never_cut_in_half(self, before: int) -> None:
        lines: list[str] = []
        fill = "head -c {} /dev/zero | tr '\\0' x".format
        text = f"{fill('$N')}; printf '%s' {{{{ x }}}}; {fill(300_000)}; exit {{{{ n }}}}"
        for code in (0, 1):
            result = outcome(
                text, {"x": SECRET, "n": code}, env={"N": before}, log=lambda stream, line: lines.append(hide(line))
            )
            whole = result.result["stdout"] if result.error is None else result.error.details["stdout"]
            for part in (whole, *lines):
                assert "open-" not in part
                assert "same" not in part

    def test_a_secret_at_the_end_of_what_an_error_shows(self) -> None:
        result = outcome("printf '%s' {{ x }}; head -c 8185 /dev/zero | tr '\\0' y; exit 1", {"x": SECRET})
        assert result.error is not None
        assert "same" not in result.error.details["stdout"]

    def test_background_processes_hold_nobody_up(self) -> None:
        assert stdout("sleep 50 & echo started") == "started\n"


class TestCancel:
    def test_a_polite_program_can_tidy_up(self, tmp_path: Path) -> None:
        async def story() -> None:
            text = "trap 'echo tidy > done; exit 0' TERM; touch ready; while :; do sleep 0.01; done"
            task = asyncio.ensure_future(call(text, cwd=str(tmp_path)))
            await until((tmp_path / "ready").exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        play(story)
        assert (tmp_path / "done").read_text() == "tidy\n"

    def test_many_cancelled_at_any_moment(self) -> None:
        async def story() -> None:
            tasks = [asyncio.ensure_future(call("sleep 50 | sleep 50")) for _ in range(20)]
            for number, task in enumerate(tasks):
                await asyncio.sleep(0.005 * (number % 4))
                task.cancel()
            result = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in result)
            assert (await call("echo fine")).ok

        play(story)

    def test_many_at_once(self) -> None:
        async def story() -> list[Outcome]:
            return await asyncio.gather(*(call("echo {{ n }}", {"n": number}) for number in range(40)))

        assert [one.result["stdout"] for one in play(story)] == [f"{number}\n" for number in range(40)]


ENGINE = """
import asyncio, os, sys
from noetl.shell_text import ShellText
from noetl.tools.base import Context
from noetl.tools.shell import Inputs, run
text = "setsid sleep 50 & sleep 50 & echo $!; wait"
context = Context(execution="e", action="a", attempt=1, step="s", task="t", timeout=None, args={}, prev=None,
                  log=lambda stream, line: (print(line, flush=True), {END}), bound={"command": ShellText(text, {})})
asyncio.run(run(Inputs(command=text), context))
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_programs_die_with_an_engine_that_says_nothing(end: str, tmp_path: Path) -> None:
    mark = str(tmp_path)
    code = ENGINE.replace("{END}", end)
    (tmp_path / "left").mkdir()  # an engine that is killed cannot remove its folders
    subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, "LC_ALL": mark, "TMPDIR": str(tmp_path / "left")},
    )
    play(lambda: until(lambda: not marked(mark)))


def marked(mark: str) -> list[str]:
    result = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                result.append(pid)
        except OSError:
            pass
    return result


def test_the_module_is_light() -> None:
    code = "import sys, noetl.tools.shell, noetl.tools.script, noetl.tools.container\nprint(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    heavy = {"asyncio", "subprocess", "socket", "httpx2", "noetl.tools.process", "noetl.shell_text", "tempfile"}
    assert not heavy & set(process.stdout.split())
