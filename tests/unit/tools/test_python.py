"""kind: python against real processes. After every test no process and no descriptor may be left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context
from noetl.tools.process.launcher import INHERITED, INTERPRETER
from noetl.tools.python import Inputs, close, run
from noetl.tools.python_child import pool

T = TypeVar("T")
SLEEP_FOR_EVER = "import time\nwhile True: time.sleep(60)\n"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    descriptors, children = len(os.listdir("/proc/self/fd")), _children()
    yield
    assert _children() <= children  # other tests may keep processes of their own, and files that close meanwhile
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def play(story: Callable[[], Awaitable[T]]) -> T:
    """Run a story in a loop of its own and close the pool at its end."""

    async def whole() -> T:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await story()
        finally:
            await close()

    return asyncio.run(whole())


async def no_entries(auth: Any) -> dict[str, Any]:
    raise Failure("auth", f"the keychain has no entry {auth!r}")


async def entries(auth: Any) -> dict[str, Any]:
    """A keychain that has every entry."""
    return {"kind": "basic", "password": f"of {auth}"} if isinstance(auth, str) else dict(auth)


def call(
    code: str,
    args: dict[str, Any] | None = None,
    *,
    execution: str = "e1",
    task: str = "fetch",
    log: Callable[[str, str], None] = lambda stream, line: None,
    action: str = "action-1",
    credential: Callable[[Any], Awaitable[dict[str, Any]]] = no_entries,
    spec: dict[str, Any] | None = None,
    redact: Any = lambda value: value,
    **inputs: Any,
) -> Awaitable[Outcome]:
    context = Context(
        execution=execution,
        action=action,
        attempt=1,
        step="step",
        task=task,
        timeout=None,
        args=args or {},
        prev=None,
        log=log,
        credential=credential,
        spec=spec or {},
        redact=redact,
    )
    return run(Inputs(code=textwrap.dedent(code), **inputs), context)


def outcome(code: str, args: dict[str, Any] | None = None, **more: Any) -> Outcome:
    return play(lambda: call(code, args, **more))


def result(code: str, args: dict[str, Any] | None = None, **more: Any) -> Any:
    actual = outcome(code, args, **more)
    assert actual.error is None
    assert actual.extra == {"py": {"exception_type": None}}
    if isinstance(actual.result, msgspec.Raw):  # a large one, to be stored as it is
        return msgspec.json.decode(actual.result)
    return actual.result


def message(found: Outcome, kind: str = "python") -> str:
    assert found.status == "error"
    assert found.result is None
    assert found.error is not None
    assert found.error.kind == kind
    assert "exception_type" in found.extra["py"]
    return found.error.message


def logged(code: str, **more: Any) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    outcome(code, log=lambda stream, line: lines.append((stream, line)), **more)
    return lines


def exists(pid: int) -> bool:
    """Whether such a process runs. A zombie does not: to bury an orphan is up to the system, not to the engine."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def pids_in(file: Path, count: int) -> list[int]:
    """Process ids that code has appended to a file, a line each."""

    def lines() -> list[str]:
        return file.read_text().splitlines() if file.exists() else []

    await until(lambda: len(lines()) >= count)
    return [int(line) for line in lines()]


def children() -> int:
    return len(pool.POOLS.get().launcher.children)


class TestAnswer:
    def test_args_are_variables_and_result_is_the_answer(self) -> None:
        assert result("result = {'sum': a + b}", {"a": 1, "b": 2}) == {"sum": 3}

    def test_no_result_is_null(self) -> None:
        assert result("x = 1") is None

    def test_data_that_looks_like_an_error_is_data(self) -> None:
        assert result("result = {'status': 'error'}") == {"status": "error"}

    def test_unicode_passes_both_ways(self) -> None:
        assert result("result = {word: 'žluť 🐎 ' + word}", {"word": "日本"}) == {"日本": "žluť 🐎 日本"}

    def test_main_is_called_with_the_args_it_accepts(self) -> None:
        assert result("def main(a, b=5, *, c=6): return [a, b, c]", {"a": 1, "c": 3, "z": 9}) == [1, 5, 3]

    def test_main_takes_every_arg_by_name(self) -> None:
        assert result("def main(a, **rest): return [a, rest]", {"a": 1, "b": 2, "odd name": 3}) == [
            1,
            {"b": 2, "odd name": 3},
        ]

    def test_main_takes_args_that_can_only_go_by_position(self) -> None:
        assert result("def main(a, b, /, c): return [a, b, c]", {"c": 3, "b": 2, "a": 1}) == [1, 2, 3]

    def test_main_may_be_any_callable(self) -> None:
        code = """
            import functools
            def doubled(f):
                @functools.wraps(f)
                def inner(*args, **kwargs): return 2 * f(*args, **kwargs)
                return inner
            @doubled
            def main(a, b=1): return a + b
        """
        assert result(code, {"a": 1, "z": 9}) == 4
        assert result("class main(dict):\n  def __init__(self, a): self['a'] = a", {"a": 1, "z": 9}) == {"a": 1}

    def test_async_main_is_awaited(self) -> None:
        assert result("import asyncio\nasync def main(a):\n  await asyncio.sleep(0)\n  return a", {"a": 7}) == 7

    def test_main_without_what_it_needs_reports_it(self) -> None:
        actual = outcome("def main(city, country, **rest): return city", {"town": 1, "country": 2})
        assert message(actual) == "TypeError: main() requires city, but the args are town, country"

    def test_a_result_that_was_set_wins_over_main(self) -> None:
        assert result("def main(): return 1\nresult = None") is None

    def test_an_arg_named_result_does_not_keep_main_from_being_called(self) -> None:
        assert result("def main(result): return result + 1", {"result": 1}) == 2

    def test_to_exit_with_nothing_wrong_is_an_end_like_any_other(self) -> None:
        assert result("import sys\nresult = 7\nsys.exit()\nresult = 8") == 7
        assert result("import sys\ndef main():\n  sys.exit(0)") is None

    def test_libs_are_imported_first(self) -> None:
        assert result("result = json.dumps([os.path.sep])", libs=["json", "os.path"]) == '["/"]'
        assert result("result = [j.dumps(1), p.sep]", libs={"j": "json", "p": "os.path"}) == ["1", "/"]
        libs = {"day": {"from": "datetime", "import": "date"}, "p": {"from": "os.path"}}
        assert result("result = [day(2024, 1, 2), p.sep]", libs=libs) == ["2024-01-02", "/"]

    def test_whole_numbers_as_keys_become_text(self) -> None:
        assert result("result = {2024: {-1: [5]}, 'a': 1}") == {"2024": {"-1": [5]}, "a": 1}

    def test_a_lib_that_is_missing(self) -> None:
        actual = outcome("result = 1", libs=["no_such_module"])
        assert message(actual) == (
            "ModuleNotFoundError: No module named 'no_such_module'; add its package to `requirements`, or install it "
            f"where the worker runs: {sys.executable} -m pip install no_such_module"
        )
        assert actual.extra["py"]["exception_type"] == "ModuleNotFoundError"

    def test_a_credential_that_is_missing(self) -> None:
        assert message(outcome("result = 1", auth="db"), kind="auth") == "the keychain has no entry 'db'"
        assert result("result = 1", auth={}) == 1

    def test_code_finds_its_credential(self) -> None:
        assert result("result = auth", auth="db", credential=entries) == {"kind": "basic", "password": "of db"}
        assert result("result = 'auth' in globals()") is False

    def test_code_finds_several_credentials_by_name(self) -> None:
        actual = result("result = auth", auth={"shop": "db", "own": {"token": "t"}}, credential=entries)
        assert actual == {"shop": {"kind": "basic", "password": "of db"}, "own": {"token": "t"}}

    def test_args_that_are_no_data_are_refused(self) -> None:
        assert "object" in message(outcome("result = 1", {"a": object()}), kind="input")
        assert "surrogates" in message(outcome("result = 1", {"a": "\ud800"}), kind="input")

    def test_code_is_the_main_module(self) -> None:
        code = """
            import pickle
            from dataclasses import dataclass
            @dataclass
            class Point:
                x: int
            result = [__name__, pickle.loads(pickle.dumps(Point(3))).x]
        """
        assert result(code) == ["__main__", 3]

    def test_modules_of_the_current_folder_can_be_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even if they are called like our own files, or are not noetl's business."""
        (tmp_path / "program.py").write_text("WORD = 'mine'")
        monkeypatch.chdir(tmp_path)
        code = "import os, sys, program\nresult = [program.WORD, os.getcwd(), any('noetl' in m for m in sys.modules)]"
        assert result(code) == ["mine", str(tmp_path), False]

    def test_environment_is_that_of_a_shell_plus_the_action(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """L15: `python` had the whole environment of the worker, and nothing of it was hidden in results."""
        monkeypatch.setenv("SHOP_PASSWORD", "s3cret")
        monkeypatch.setenv("LANG", "C.UTF-8")
        code = "from subprocess import getoutput\nresult = getoutput('echo $LANG $SHOP_PASSWORD $NOETL_ACTION_ID')"
        assert result(code, action="id-7") == "C.UTF-8 id-7"
        names = set(result("import os\nresult = sorted(os.environ)"))
        assert names <= {*INHERITED, *INTERPRETER, "NOETL_ACTION_ID", "LC_CTYPE"}

    def test_there_are_no_core_dumps(self) -> None:
        assert result("import resource\nresult = resource.getrlimit(resource.RLIMIT_CORE)") == [0, 0]

    def test_variables_of_the_engine_are_not_the_codes_business(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NOETL_TOKEN", "secret")
        actual = result("import os\nresult = [name for name in os.environ if name.startswith('NOETL')]")
        assert actual == ["NOETL_ACTION_ID"]


class TestResult:
    @pytest.mark.parametrize(
        ("code", "stored"),
        [
            ("(1, (2, 3))", [1, [2, 3]]),
            ("[True, False, None, 0, -1.5, '']", [True, False, None, 0, -1.5, ""]),
            ("[2**63 - 1, -2**63]", [2**63 - 1, -(2**63)]),
            ("__import__('datetime').date(2024, 2, 29)", "2024-02-29"),
            ("__import__('datetime').datetime(2024, 2, 29, 12, 30)", "2024-02-29T12:30:00"),
            ("[__import__('decimal').Decimal('1.10')]", ["1.10"]),
            ("{'id': __import__('uuid').UUID(int=1)}", {"id": "00000000-0000-0000-0000-000000000001"}),
            ("__import__('collections').OrderedDict(a=1)", {"a": 1}),
            ("__import__('collections').namedtuple('P', 'x y')(1, (2,))", [1, [2]]),
            ("__import__('http').HTTPStatus.OK", 200),
            ("type('S', (str,), {})('text')", "text"),
            (
                "[1, {'deep': [{'when': __import__('datetime').date(2024, 1, 1)}, 2]}]",
                [1, {"deep": [{"when": "2024-01-01"}, 2]}],
            ),
        ],
    )
    def test_what_can_be_stored(self, code: str, stored: Any) -> None:
        assert result(f"result = {code}") == stored

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            ("{'rows': [{'tags': {1}}]}", "result.rows[0].tags is of type set (a set has no order"),
            ("{'a b': [object()]}", "result['a b'][0] is of type object"),
            ("[1, b'x']", "result[1] is of type bytes (decode it into text"),
            ("[0.5, float('nan')]", "result[1] is nan, which JSON does not have"),
            ("float('inf')", "result is inf"),
            ("[1, 2**63]", "result[1] is a number of more than 64 bits (64)"),
            ("{'a': {1.5: 2}}", "result.a has the key 1.5 of type float: keys are text"),
            ("{'a': {True: 2}}", "result.a has the key True of type bool: keys are text"),
            ("{'a': {1: 2, '1': 3}}", "result.a has two keys that are the same as text, such as 1 and '1'"),
            ("(x for x in 'ab')", "result is of type generator (make it a list)"),
            ("lambda: 0", "result is of type function"),
            ("{'a': ['ok', 'bad \\ud800']}", "result.a[1] is not valid Unicode"),
            ("{'\\ud800': 1}", "not valid Unicode"),
            ("__import__('decimal').Decimal('NaN')", "result is of type Decimal"),
        ],
    )
    def test_what_cannot_be_stored_and_where_it_is(self, code: str, why: str) -> None:
        text = message(outcome(f"result = {code}"))
        assert text.startswith("the result cannot be stored: result")
        assert why in text

    def test_surrogates_are_found_in_large_results_too(self) -> None:
        actual = outcome("result = {'rows': [str(i) for i in range(20_000)] + ['\\ud800']}")
        assert "result.rows[20000] is not valid" in message(actual)

    def test_a_result_that_contains_itself(self) -> None:
        actual = outcome("result = []\nresult.append(result)")
        assert "nested deeper than 200 levels, or contains itself" in message(actual)

    def test_numpy_scalars_and_arrays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stands for numpy, which is not installed here: what counts is the module and `tolist`."""
        (tmp_path / "numpy.py").write_text(
            "class generic:\n  def __init__(self, v): self.v = v\n  def tolist(self): return self.v\n"
            "class ndarray(generic): pass\nclass longdouble(generic):\n  def tolist(self): return self\n"
        )
        monkeypatch.chdir(tmp_path)
        code = "import numpy\nresult = [numpy.generic(1.5), numpy.ndarray([[1], [2]])]"
        assert result(code) == [1.5, [[1], [2]]]
        assert "result is nan" in message(outcome("import numpy\nresult = numpy.generic(float('nan'))"))
        assert "of type longdouble" in message(outcome("import numpy\nresult = numpy.longdouble(1)"))

    def test_fifty_megabytes_of_text(self) -> None:
        assert result("result = 'é' * 25_000_000") == "é" * 25_000_000

    def test_fifty_megabytes_of_rows(self) -> None:
        rows = result("result = [{'id': i, 'text': 'x' * 80, 'ok': True} for i in range(450_000)]")
        assert len(rows) == 450_000
        assert rows[-1] == {"id": 449_999, "text": "x" * 80, "ok": True}

    def test_large_args(self) -> None:
        assert result("result = [len(text), text[-1]]", {"text": "x" * 50_000_000 + "!"}) == [50_000_001, "!"]

    def test_more_than_two_hundred_megabytes_are_too_large(self) -> None:
        actual = outcome("result = 'x' * (200 * 1024 * 1024)")
        assert message(actual, kind="too_large") == "the result takes 200 MiB as JSON, more than 200 MiB"


class TestError:
    def test_exception_with_the_lines_of_the_code(self) -> None:
        code = "def check(x):\n    if x:\n        raise ValueError('bad value')\n\ncheck(1)\n"
        actual = outcome(code, task="fetch rows")
        assert message(actual) == "ValueError: bad value (line 3)"
        assert actual.extra["py"] == {
            "exception_type": "ValueError",
            "traceback": [
                "Traceback (most recent call last):",
                '  File "<task fetch rows>", line 5, in <module>',
                "    check(1)",
                '  File "<task fetch rows>", line 3, in check',
                "    raise ValueError('bad value')",
                "ValueError: bad value",
            ],
        }

    def test_the_error_has_the_place_in_the_code_and_a_redacted_traceback(self) -> None:
        def redact(value: Any) -> Any:
            return [text.replace("s3cret", "***") for text in value] if isinstance(value, list) else value

        actual = outcome("\nx = 's3cret'; raise ValueError(x)", redact=redact)
        assert actual.error is not None
        assert (actual.error.details["line"], actual.error.details["column"]) == (2, 15)
        assert actual.error.details["traceback"] == actual.extra["py"]["traceback"]
        assert "s3cret" not in str(actual.error.details)
        assert "ValueError: ***" in actual.error.details["traceback"]

    def test_line_is_the_codes_own_when_a_library_raises(self) -> None:
        actual = outcome("import json\n\nresult = json.loads('{')")
        assert message(actual).startswith("JSONDecodeError: Expecting property name")
        assert message(actual).endswith("(line 3)")

    def test_two_tasks_of_one_name_keep_their_lines_apart(self) -> None:
        async def story() -> list[Any]:
            actual = [await call(code) for code in ("1/0 # one", "2/0 # two", "1/0 # one")]
            return [one.extra["py"]["traceback"][2] for one in actual]

        assert play(story) == ["    1/0 # one", "    2/0 # two", "    1/0 # one"]

    def test_cause_is_shown(self) -> None:
        actual = outcome("try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError('k') from e")
        assert message(actual) == "KeyError: 'k' (line 4)"
        assert "ZeroDivisionError: division by zero" in actual.extra["py"]["traceback"]

    def test_syntax_error(self) -> None:
        actual = outcome("x = 1\ny = = 2\n")
        assert message(actual) == "SyntaxError: invalid syntax (line 2)"
        assert "    y = = 2" in actual.extra["py"]["traceback"]

    @pytest.mark.parametrize(
        ("code", "says", "exception"),
        [
            ("import sys; sys.exit(3)", "SystemExit: 3 (line 1)", "SystemExit"),
            ("import sys; sys.exit('no more')", "SystemExit: no more (line 1)", "SystemExit"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt (line 1)", "KeyboardInterrupt"),
            ("raise GeneratorExit", "GeneratorExit (line 1)", "GeneratorExit"),
            ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded (line 1)", "RecursionError"),
            ("x = bytearray(3 * 1024**3)", "MemoryError (line 1)", "MemoryError"),
            (
                "class E(Exception):\n  def __str__(self): raise ValueError\nraise E",
                "E (it cannot be shown: ValueError)",
                "E",
            ),
            (
                "class E(Exception):\n  def __str__(self): raise SystemExit\nraise E",
                "E (it cannot be shown: SystemExit)",
                "E",
            ),
            ("import os; os._exit(3)", "the process ended with exit code 3", None),
            ("import os; os._exit(0)", "the process ended with exit code 0", None),
            ("import ctypes; ctypes.string_at(0)", "the process was killed by SIGSEGV (signal 11)", None),
            ("import os; os.kill(os.getpid(), 15)", "the process was killed by SIGTERM (signal 15)", None),
            ("import os; os.close(3); time.sleep(60)", "the process has closed its channel to the engine", None),
            (
                "import os; os.closerange(0, 99); time.sleep(60)",
                "the process has closed its channel to the engine",
                None,
            ),
        ],
    )
    def test_every_end_is_an_error_and_the_next_call_works(self, code: str, says: str, exception: str | None) -> None:
        async def story() -> Outcome:
            actual = await call(code, libs=["time"])
            assert (await call("result = 1")).result == 1
            return actual

        stage = play(story)
        assert message(stage) == says
        assert stage.extra["py"]["exception_type"] == exception

    @pytest.mark.parametrize("bytes_", ["b'garbage'", "b'long garbage'", "bytes(10)", "b'\\xff' * 500"])
    def test_code_that_writes_into_the_engines_line(self, bytes_: str) -> None:
        async def story() -> Outcome:
            actual = await call(f"import os\nos.write(3, {bytes_})")
            assert (await call("result = 1")).result == 1
            return actual

        assert message(play(story)) == "the process has written to its channel to the engine"

    def test_an_answer_that_is_forged_badly(self) -> None:
        forge = "import os\nos.write(3, bytes([2, 0, 0, 0, 1, 0, 0, 0, 1, 0]) + b'{]')\n"
        actual = outcome(forge + SLEEP_FOR_EVER)
        assert message(actual).startswith("the process sent an invalid response: ")

    def test_killed_from_outside_during_a_call(self, tmp_path: Path) -> None:
        async def story() -> Outcome:
            running = asyncio.ensure_future(call(f"{note(tmp_path)}\n{SLEEP_FOR_EVER}"))
            [pid] = await pids_in(tmp_path / "pids", 1)
            os.kill(pid, signal.SIGKILL)
            actual = await running
            assert (await call("result = 1")).result == 1
            return actual

        stage = play(story)
        assert message(stage).startswith("the process was killed by SIGKILL (signal 9)")
        assert stage.error is not None
        assert stage.error.retryable

    def test_code_that_ends_its_process_would_do_it_again(self) -> None:
        actual = outcome("import os\nos._exit(3)")
        assert (message(actual), actual.error and actual.error.retryable) == (
            "the process ended with exit code 3",
            False,
        )

    def test_an_idle_child_killed_from_outside(self) -> None:
        async def story() -> None:
            pid = (await call("import os; result = os.getpid()")).result
            os.kill(pid, signal.SIGKILL)
            await until(lambda: children() == 0)
            assert (await call("result = 1")).result == 1

        play(story)

    def test_zygote_killed_from_outside(self, tmp_path: Path) -> None:
        async def story() -> Outcome:
            code = f"import subprocess\nsubprocess.Popen(['sleep', '600'])\n{note(tmp_path)}\n{SLEEP_FOR_EVER}"
            running = asyncio.ensure_future(call(code))
            [pid] = await pids_in(tmp_path / "pids", 1)
            os.kill(pool.POOLS.get().launcher.start()[1].pid, signal.SIGKILL)
            actual = await running
            await until(lambda: not exists(pid))
            assert (await call("result = 1")).result == 1
            return actual

        stage = play(story)
        assert "ended with the zygote, which was killed by SIGKILL" in message(stage)
        assert stage.error is not None
        assert stage.error.retryable

    def test_a_forked_copy_of_the_code_answers_nothing(self) -> None:
        async def story() -> list[Any]:
            code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nresult = 'parent' if pid else 'copy'"
            return [(await call(code)).result for _ in range(3)]

        assert play(story) == ["parent"] * 3


def note(folder: Path) -> str:
    """Code that writes down its process id."""
    return f"import os\nwith open({str(folder / 'pids')!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')"


class TestOutput:
    def test_both_streams_line_by_line(self) -> None:
        code = "import sys\nprint('one\\ntwo')\nprint('three', file=sys.stderr)\nprint('end', end='')"
        lines = logged(code)
        assert [line for stream, line in lines if stream == "stdout"] == ["one", "two", "end"]
        assert [line for stream, line in lines if stream == "stderr"] == ["three"]

    def test_output_of_other_programs_and_of_c(self) -> None:
        code = """
            import ctypes, os, subprocess
            subprocess.run(["sh", "-c", "echo out; echo err >&2"])
            os.write(1, b"raw\\n")
            ctypes.CDLL(None).puts(b"from c")
        """
        assert sorted(logged(code)) == [("stderr", "err"), ("stdout", "from c"), ("stdout", "out"), ("stdout", "raw")]

    def test_lines_come_while_the_code_runs(self) -> None:
        async def story() -> None:
            lines: list[str] = []
            running = asyncio.ensure_future(
                call(f"print('early')\n{SLEEP_FOR_EVER}", log=lambda stream, line: lines.append(line))
            )
            await until(lambda: lines == ["early"])
            running.cancel()
            await asyncio.wait([running])

        play(story)

    def test_output_belongs_to_the_call_that_wrote_it(self) -> None:
        async def story() -> list[list[str]]:
            logs: list[list[str]] = [[] for _ in range(20)]
            for index, log in enumerate(logs):
                await call(f"print({index}, end='')", log=lambda stream, line, log=log: log.append(line))
            return logs

        assert play(story) == [[str(index)] for index in range(20)]

    def test_output_before_a_death_is_kept(self) -> None:
        assert logged("import os\nprint('last words')\nos._exit(1)") == [("stdout", "last words")]

    def test_huge_output_is_cut_with_a_notice(self) -> None:
        lines = logged("for i in range(200_000): print('x' * 100)")
        assert lines[-1] == ("stderr", "[output of this call beyond 10,000 lines is dropped]")
        assert len(lines) == 10_001
        lines = logged("print('x' * 100_000_000)\nprint('y')")
        assert lines[-1] == ("stderr", "[output of this call beyond 1,024 KiB is dropped]")
        assert sum(len(line) for _, line in lines) <= 1024 * 1024 + 100

    def test_long_lines_come_in_pieces_of_whole_characters(self) -> None:
        pieces = [line for _, line in logged("print('é' * 30_000)\nprint('next')")]
        assert "".join(pieces[:-1]) == "é" * 30_000
        assert pieces[-1] == "next"
        assert max(len(piece.encode()) for piece in pieces) <= 16 * 1024

    def test_bytes_that_are_no_text(self) -> None:
        assert logged("import os; os.write(1, b'\\xff\\xfe ok\\r\\n')") == [("stdout", "�� ok")]

    @pytest.mark.parametrize(
        "spoil",
        [
            "import sys; sys.stdout.close()",
            "import sys; sys.stdout.detach()",
            "import io, sys; sys.stdout = io.StringIO()",
            "import io, sys; sys.stdout = io.TextIOWrapper(sys.stdout.buffer)",
            "import os; os.close(1)",
            "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
            "import sys; sys.stdout = None",
        ],
    )
    def test_the_next_call_can_print_whatever_the_last_one_did_to_stdout(self, spoil: str) -> None:
        async def story() -> list[str]:
            lines: list[str] = []
            assert (await call(f"{spoil}\nresult = 1")).result == 1
            await call("print('fine')", log=lambda stream, line: lines.append(line))
            return lines

        assert play(story) == ["fine"]

    def test_a_wrapped_stdout_is_flushed(self) -> None:
        code = "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint('wrapped')"
        assert logged(code) == [("stdout", "wrapped")]


class TestNothingLeaks:
    @pytest.mark.parametrize(
        ("leave", "look"),
        [
            ("secret = 1", "result = 'secret' in globals()"),
            ("import __main__; __main__.secret = 1", "import __main__; result = hasattr(__main__, 'secret')"),
            ("import os; os.environ['LEFT'] = '1'", "import os; result = 'LEFT' in os.environ"),
            ("import os; del os.environ['PATH']", "import os; result = 'PATH' not in os.environ"),
            ("import os; os.chdir('/')", "import os; result = os.getcwd() == '/'"),
            ("import sys; sys.path.append('/left')", "import sys; result = '/left' in sys.path"),
            ("import sys; sys.path = None", "import sys; result = sys.path is None"),
            ("import os; os.environ = {}", "import os; result = 'PATH' not in os.environ"),
            ("import sys; sys.setrecursionlimit(77)", "import sys; result = sys.getrecursionlimit() == 77"),
            ("import signal; signal.alarm(9)", "import signal; result = signal.alarm(0) != 0"),
        ],
    )
    def test_from_one_call_to_the_next(self, leave: str, look: str) -> None:
        async def story() -> list[Any]:
            pids = "import os; result = os.getpid()"
            first, left, seen, last = [await call(code) for code in (pids, leave, look, pids)]
            assert first.result == last.result, "the same process"
            assert left.ok
            return [seen.status, seen.result]

        assert play(story) == ["ok", False]

    def test_from_one_execution_to_another(self) -> None:
        async def story() -> None:
            left = await call("import json, os\njson.left = 1\nresult = os.getpid()", execution="e1")
            seen = await call("import json, os\nresult = [os.getpid(), hasattr(json, 'left')]", execution="e2")
            assert seen.result[0] != left.result
            assert seen.result[1] is False

        play(story)


class TestOneSetOfCredentialsPerChild:
    def test_calls_with_one_set_share_a_child_and_others_do_not(self) -> None:
        code = "import os\nresult = os.getpid()"

        async def story() -> list[int]:
            async def pid(**more: Any) -> int:
                return int((await call(code, credential=entries, **more)).result)

            return [
                await pid(auth="a"),
                await pid(auth="a"),
                await pid(auth="b"),
                await pid(),
                await pid(auth={"x": "a"}),
                await pid(auth="a", execution="e2"),
                await pid(auth="a"),
            ]

        first, *others = play(story)
        assert [pid == first for pid in others] == [True, False, False, False, False, True]
        assert len(set(others)) == 5

    def test_what_code_with_a_credential_leaves_behind_is_not_found_without_it(self) -> None:
        async def story() -> Any:
            await call("import string\nstring.left = auth", auth="a", credential=entries)
            actual = await call("import string\nresult = hasattr(string, 'left')", auth="b", credential=entries)
            return actual.result, (await call("import string\nresult = hasattr(string, 'left')")).result

        assert play(story) == (False, False)

    def test_credentials_that_change_get_another_child(self) -> None:
        passwords = iter(["old", "new"])

        async def rotating(auth: Any) -> dict[str, Any]:
            return {"password": next(passwords)}

        async def story() -> list[Any]:
            code = "import os\nresult = [os.getpid(), auth['password']]"
            return [(await call(code, auth="a", credential=rotating)).result for _ in range(2)]

        (first, old), (second, new) = play(story)
        assert (old, new, first == second) == ("old", "new", False)

    def test_long_lines_are_cut_after_their_secrets_are_hidden(self) -> None:
        lines: list[str] = []
        for before in (16_380, 65_530):
            outcome(
                f"print('x' * {before} + auth['password'] + 'x' * 100_000)",
                auth="db",
                credential=entries,
                log=lambda stream, line: lines.append(line.replace("of db", "***")),
                redact=lambda value: value.replace("of db", "***"),
            )
        assert not [line for line in lines if "of" in line or "db" in line]


class TestPool:
    def test_a_thousand_calls_are_the_life_of_a_child(self) -> None:
        async def story() -> list[int]:
            return [(await call("import os; result = os.getpid()")).result for _ in range(1001)]

        pids = play(story)
        assert len(set(pids[:1000])) == 1
        assert pids[1000] != pids[0]

    def test_many_calls_in_flight(self) -> None:
        async def story() -> list[Any]:
            actual = await asyncio.gather(*(call("result = n", {"n": n}) for n in range(1000)))
            return [one.result for one in actual]

        assert play(story) == list(range(1000))

    def test_ten_blocking_calls_run_at_the_same_time(self, tmp_path: Path) -> None:
        """Each waits for all the others."""
        code = """
            import os, time
            open(os.path.join(folder, str(n)), "w").close()
            while len(os.listdir(folder)) < 10: time.sleep(0.005)
            result = n
        """

        async def story() -> list[Any]:
            actual = await asyncio.gather(*(call(code, {"n": n, "folder": str(tmp_path)}) for n in range(10)))
            return [one.result for one in actual]

        assert play(story) == list(range(10))

    def test_surplus_children_are_dismissed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "SURPLUS_SECONDS", 0.02)
        monkeypatch.setattr(pool, "IDLE_SECONDS", 0.05)

        async def story() -> None:
            await asyncio.gather(*(call("import time; time.sleep(0.05)") for _ in range(8)))
            await until(lambda: children() == 0)
            assert (await call("result = 1")).result == 1

        play(story)

    def test_executions_share_few_places_fairly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "MAX_CHILDREN", 2)

        async def story() -> list[Any]:
            calls = [call("result = n", {"n": n}, execution=f"e{n % 7}") for n in range(100)]
            actual = [one.result for one in await asyncio.gather(*calls)]
            assert pool.POOLS.get().alive <= 2
            return actual

        assert play(story) == list(range(100))

    @pytest.mark.parametrize(
        "leave",
        [
            "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
            "import subprocess\nsubprocess.Popen(['sleep', '600'])",
            "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)",
            "import os\nos.system('setsid sleep 600 &')",
            "x = bytearray(300 * 1024 * 1024)",
        ],
    )
    def test_a_child_with_something_left_is_replaced(self, leave: str) -> None:
        async def story() -> None:
            first = await call(f"{leave}\nimport os\nresult = os.getpid()")
            assert first.ok
            second = await call("import os\nresult = os.getpid()")
            assert second.result != first.result
            await until(lambda: not exists(first.result))

        play(story)

    def test_what_a_replaced_child_has_started_is_gone(self, tmp_path: Path) -> None:
        code = """
            import os, subprocess, time
            note = f"echo $$ >> {file}; sleep 600 & echo $! >> {file}; wait"
            for apart in (False, True):
                subprocess.Popen(["sh", "-c", note], start_new_session=apart)
            while not os.path.exists(file) or open(file).read().count("\\n") < 4: time.sleep(0.005)
        """
        file = tmp_path / "pids"

        async def story() -> None:
            assert (await call(code, {"file": str(file)})).ok
            pids = await pids_in(file, 4)
            await until(lambda: not any(map(exists, pids)))

        play(story)

    def test_pools_of_two_loops_one_after_the_other(self) -> None:
        async def forgetful() -> Any:
            return (await call("result = 1")).result

        assert asyncio.run(forgetful()) == 1
        assert play(forgetful) == 1

    def test_closing_ends_running_and_waiting_calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "MAX_CHILDREN", 1)

        async def story() -> list[Outcome]:
            running = [asyncio.ensure_future(call(SLEEP_FOR_EVER)) for _ in range(3)]
            await asyncio.sleep(0.01)
            await close()
            return await asyncio.gather(*running)

        assert {message(found) for found in play(story)} == {"the pool of processes was closed"}


class TestCancel:
    TREE = """
        import os, subprocess, sys
        def note(pid):
            with open(file, "a") as f: f.write(f"{pid}\\n")
        note(os.getpid())
        note(subprocess.Popen(["sleep", "600"]).pid)
        note(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
        apart = f"setsid sh -c 'echo $$ >> {file}; sleep 600'"
        subprocess.Popen(["sh", "-c", f"sleep 600 & echo $! >> {file}; {apart} & exit"])
        while True:
            try: __import__("time").sleep(600)
            except BaseException: pass
    """

    def test_time_limit_kills_the_whole_tree(self, tmp_path: Path) -> None:
        file = tmp_path / "pids"

        async def limited() -> list[int]:
            """The time is over as soon as all processes are there."""
            try:
                async with asyncio.timeout(PATIENCE_SECONDS) as limit:
                    watching = asyncio.ensure_future(pids_in(file, 5))
                    watching.add_done_callback(lambda _: limit.reschedule(0))
                    await call(self.TREE, {"file": str(file)})
            except TimeoutError:
                return watching.result()
            raise AssertionError("the call has ended")

        async def story() -> None:
            pids = await limited()
            assert len(pids) == 5
            assert [pid for pid in pids if exists(pid)] == []
            assert children() == 0
            assert (await call("result = 1")).result == 1

        play(story)

    def test_cancelling_before_the_child_is_even_there(self) -> None:
        async def story() -> None:
            running = asyncio.ensure_future(call(SLEEP_FOR_EVER))
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert children() == 0
            assert (await call("result = 1")).result == 1

        play(story)

    def test_a_waiting_call_is_forgotten_and_the_running_one_continues(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool, "MAX_CHILDREN", 1)
        code = "import os, time\nwhile not os.path.exists(file): time.sleep(0.005)\nresult = 'went on'"

        async def story() -> None:
            file = tmp_path / "go"
            running = asyncio.ensure_future(call(code, {"file": str(file)}))
            await until(lambda: children() == 1)
            waiting = asyncio.ensure_future(call(note(tmp_path)))
            await asyncio.sleep(0.02)
            waiting.cancel()
            await asyncio.wait([waiting])
            file.touch()
            assert (await running).result == "went on"
            assert not (tmp_path / "pids").exists()

        play(story)

    def test_many_cancelled_at_random_moments(self) -> None:
        async def story() -> None:
            for index in range(60):
                running = asyncio.ensure_future(call("import time; time.sleep(0.002)"))
                await asyncio.sleep(index * 0.0001)
                running.cancel()
                await asyncio.wait([running])
            assert (await call("result = 1")).result == 1

        play(story)


class TestEnd:
    SCRIPT = """
        import asyncio, sys
        sys.path[:0] = {path!r}
        from test_python import call
        async def main():
            code = "import os, subprocess\\np = subprocess.Popen(['sleep', '600'], start_new_session=True)\\n"
            code += "print(os.getpid(), p.pid, flush=True)\\n" + {wait!r}
            await call(code, log=lambda stream, line: print(line, flush=True))
        asyncio.run(main())
    """

    def engine(self, wait: str) -> subprocess.Popen[str]:
        path = [str(Path(__file__).parent), *sys.path]
        script = textwrap.dedent(self.SCRIPT.format(path=path, wait=wait))
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)

    def test_processes_die_with_an_engine_that_is_killed(self) -> None:
        with self.engine(SLEEP_FOR_EVER) as engine:
            assert engine.stdout is not None
            pids = [int(pid) for pid in engine.stdout.readline().split()]
            assert len(pids) == 2
            engine.kill()
            asyncio.run(until(lambda: not any(map(exists, pids))))

    def test_processes_die_with_an_engine_that_closes_nothing(self) -> None:
        with self.engine("") as engine:
            output, _ = engine.communicate()
        assert engine.returncode == 0
        assert [pid for pid in map(int, output.split()) if exists(pid)] == []

    def test_the_module_is_light(self) -> None:
        heavy = {"asyncio", "subprocess", "socket", "multiprocessing", "noetl.tools.python_child"}
        script = f"import sys, noetl.tools.python; print(sorted({heavy} & sys.modules.keys()))"
        assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


def test_inputs_are_what_the_kind_takes() -> None:
    typed = msgspec.convert({"code": "x", "libs": ["a"], "auth": {}}, Inputs)
    assert (typed.code, typed.libs, typed.auth) == ("x", ["a"], {})
