"""Python tasks whose program, modules or packages are not in the playbook. Packages come from a folder, never from the
network."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest
from command import Done, file, noetl
from places import Place
from terminal import HEAD, data

from noetl.dsl.compile import load
from noetl.files import load_text
from noetl.testing import run_playbook
from noetl.tools.process.inside.linux import landlock_version
from noetl.tools.python_child.environment import packages_of, without_logins
from noetl.tools.registry import KINDS


def one_task(task: str, head: str = HEAD) -> str:
    return f"{head}workflow:\n  - step: start\n    tool:\n      - t: {task}\n"


HALF = one_task("{kind: python, file: half.py, args: {n: 7}} # after it")
PROGRAM = 'def main(n):\n    """é \\u2028 {{ x }}"""\n    return n // 2\n'


def wheel(folder: Path, name: str, value: int) -> Path:
    """A wheel with one module."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"VALUE = {value}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    records = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        records.append(f"{path},sha256={digest},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join(records) + f"{info}/RECORD,,\n"
    archive = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path, text in files.items():
            zipped.writestr(path, text)
    return archive


def run(folder: Path, text: str, *arguments: str, **env: str) -> Done:
    return noetl("run", file(folder, text), *arguments, cwd=folder, NOETL_CACHE=str(folder / "cache"), **env)


class TestFile:
    @pytest.mark.parametrize(
        "task",
        [
            "{kind: python, file: half.py, args: {n: 7}}",
            "{kind: python, args: {n: 7}, file: 'half.py'}",
            '{"kind": "python", "args": {"n": 7}, "file": "half.py"}',
            "\n          kind: python\n          file: half.py # the program\n          args: {n: 7}",
            "\n          kind: python\n          file: &half half.py\n          args: {n: 7, name: half.py}",
        ],
    )
    def test_the_program_is_read_from_a_file_beside_the_playbook(self, tmp_path: Path, task: str) -> None:
        file(tmp_path, PROGRAM, "half.py")
        done = run(tmp_path, one_task(task))
        assert (done.code, done.out) == (0, "3\n"), done.err

    def test_a_registered_playbook_has_the_program_and_runs_without_the_file(self, place: Place) -> None:
        file(place.folder, PROGRAM, "half.py")
        assert place("register", file(place.folder, HALF)).code == 0
        (place.folder / "half.py").unlink()
        assert place.json("exec", "tests/story", *(["--wait"] if place.env else []))["result"] == 3

    def test_an_error_is_in_the_line_of_the_file(self, tmp_path: Path) -> None:
        file(tmp_path, "def main(n):\n    return n / 0\n", "half.py")
        failed = run(tmp_path, HALF)
        assert "half.py:2:12: step start, task t, attempt 1: python: ZeroDivisionError" in failed.err
        assert (
            '2 |     return n / 0\n  |            ^\n  Traceback (most recent call last):\n    File "half.py"'
            in failed.err
        )

    @pytest.mark.parametrize("verb", ["run", "validate", "register"])
    def test_a_file_that_cannot_be_read_is_a_problem_with_its_place_and_a_remedy(
        self, tmp_path: Path, verb: str
    ) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "latin.py").write_bytes(b"x = 1\nname = '\xe9'\n")
        reasons = {
            "half.py": ("No such file or directory", "write its path relative to the folder of the playbook"),
            "folder": ("it is a folder", "name a file in this folder"),
            "latin.py": ("byte 0xe9 in line 2 is not valid UTF-8", "save the file as UTF-8"),
        }
        for name, (reason, remedy) in reasons.items():
            failed = noetl(verb, file(tmp_path, HALF.replace("half.py", name), "p.yaml"), cwd=tmp_path)
            printed = failed.out + failed.err
            assert failed.code == 3, printed
            assert f"p.yaml:7:33: error NTL220: cannot read '{name}': " in printed
            assert reason in printed
            assert remedy in printed
            line = next(line for line in printed.splitlines() if line.startswith("  | ") and line.endswith("^"))
            assert line == f"  | {' ' * 32}^"
            assert "p.yaml: 1 error" in printed

    def test_a_file_without_permission_says_how_to_permit_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: str) -> None:  # root may read every file
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr("noetl.program_files.open_checked", refuse)
        (problem,) = load_text(file(tmp_path, HALF))[1].problems
        assert (problem.code, problem.message) == ("NTL220", "cannot read 'half.py': Permission denied")
        assert problem.hint == f"make it readable: `chmod u+r {tmp_path}/half.py`"

    def test_every_file_that_cannot_be_read_is_reported_with_the_other_problems(self, tmp_path: Path) -> None:
        text = HALF + "      - u: {kind: python, file: other.py}\n      - v: {kind: nop}\n"
        problems = load_text(file(tmp_path, text))[1].problems
        assert [(problem.code, problem.line) for problem in problems] == [("NTL220", 7), ("NTL220", 8), ("NTL202", 9)]

    def test_a_child_is_found_beside_a_playbook_whose_program_is_missing(self, tmp_path: Path) -> None:
        file(tmp_path, HALF + "# shop/child\n", "a.yaml")
        child = one_task("{kind: noop, result: 5}").replace("tests/story", "shop/child")
        file(tmp_path, child, "b.yaml")
        done = run(tmp_path, one_task("{kind: playbook, path: shop/child}").replace("tests/story", "shop/parent"))
        assert (done.code, done.out) == (0, "5\n"), done.err

    def test_a_file_that_is_not_allowed_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NOETL_TOOL_FILES", str(tmp_path / "allowed"))
        file(tmp_path, PROGRAM, "half.py")
        (problem,) = load_text(file(tmp_path, HALF))[1].problems
        assert "outside of the folders that NOETL_TOOL_FILES allows" in problem.message

    def test_the_program_is_checked_and_the_problem_shows_the_line_of_the_playbook(self, tmp_path: Path) -> None:
        file(tmp_path, "x = 1\nreturn x\n", "half.py")
        (problem,) = load_text(file(tmp_path, HALF))[1].problems
        assert problem.message == "half.py, line 2: the code does not compile: 'return' outside function"
        assert (problem.line, problem.column) == (7, 33)
        assert problem.source == HALF.splitlines()[6]

    def test_other_lines_stay_where_they_are_and_data_stays_data(self, tmp_path: Path) -> None:
        file(tmp_path, PROGRAM, "half.py")
        text = HALF + "      - d: {kind: noop, result: {kind: python, file: none.py}}\n"
        embedded, loaded = load_text(file(tmp_path, text))
        assert embedded.count(b"\n") == text.count("\n")
        assert loaded.require().steps[0].tasks[0].inputs["file"] == {"path": "half.py", "text": PROGRAM}
        assert loaded.require().steps[0].tasks[1].inputs["result"] == {"kind": "python", "file": "none.py"}

    def test_a_text_without_its_program_fails_and_says_what_to_do(self, tmp_path: Path) -> None:
        loaded = load("p.yaml", HALF, KINDS)
        assert loaded.problems == []
        stored = file(tmp_path, HALF.replace("file: half.py", "file: {path: half.py}"))
        failed = noetl("run", stored, cwd=tmp_path)
        assert "`noetl run` and `noetl register` put it there" in failed.err

    def test_code_and_file_exclude_each_other(self, tmp_path: Path) -> None:
        file(tmp_path, PROGRAM, "half.py")
        failed = noetl("validate", file(tmp_path, one_task("{kind: python, file: half.py, code: x = 1}")), cwd=tmp_path)
        assert "python takes only one of code, file" in failed.out


class TestModules:
    def test_modules_beside_the_playbook_can_be_imported_from_any_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "flows"
        folder.mkdir()
        file(folder, "def half(n): return n // 2\n", "helper.py")
        playbook = file(folder, one_task('{kind: python, code: "from helper import half; result = half(7)"}'))
        done = noetl("run", playbook, cwd=tmp_path)
        assert (done.code, done.out) == (0, "3\n"), done.err
        assert data(noetl("run", playbook, "-o", "json", cwd=tmp_path))["result"] == 3

    def test_a_missing_module_says_where_to_install_it(self, tmp_path: Path) -> None:
        failed = run(tmp_path, one_task('{kind: python, code: "import no_such.part"}'))
        assert "ModuleNotFoundError: No module named 'no_such'" in failed.err
        remedy = "add its package to `requirements`, or install it where the worker runs"
        assert f"{remedy}: {sys.executable} -m pip install no_such\n" in failed.err


class TestRequirements:
    READ = 'code: "import noetl_probe; result = noetl_probe.VALUE"'

    def test_packages_are_installed_once_and_shared(self, tmp_path: Path) -> None:
        wheel(tmp_path / "wheels", "noetl_probe", 7)
        options = '["--no-index", "--find-links ./wheels", noetl-probe==1.0]'
        head = f"{HEAD}executor: {{spec: {{python: {{requirements: {options}}}}}}}\n"
        text = one_task(f"{{kind: python, {self.READ}}}", head)
        first = run(tmp_path, text)
        assert (first.code, first.out) == (0, "7\n"), first.err
        assert first.err.startswith("noetl: installing --no-index, --find-links ./wheels, noetl-probe==1.0 into ")
        (tmp_path / "wheels" / "noetl_probe-1.0-py3-none-any.whl").unlink()  # as without a network
        again = run(tmp_path, text)
        assert (again.code, again.out) == (0, "7\n"), again.err
        assert "installing" not in again.err

    def test_two_lists_in_one_run_do_not_mix(self, tmp_path: Path) -> None:
        one, two = wheel(tmp_path / "one", "noetl_probe", 1), wheel(tmp_path / "two", "noetl_probe", 2)
        tasks = [
            f"{{kind: python, requirements: [./{path.relative_to(tmp_path)}], {self.READ}}}" for path in (one, two)
        ]
        text = one_task(tasks[0]) + f"      - u: {tasks[1]}\n"
        ended = data(run(tmp_path, text.replace("u:", "u:"), "-o", "json"))
        assert ended["result"] == 2
        assert len(list((tmp_path / "cache" / "python").glob("*.lock"))) == 2

    def test_a_list_that_cannot_be_installed_says_what_the_installer_said(self, tmp_path: Path) -> None:
        failed = run(
            tmp_path, one_task(f'{{kind: python, requirements: ["--no-index", no-such-package], {self.READ}}}')
        )
        assert failed.code == 1
        where = "playbook.yaml:7:56: "
        assert f"noetl: {where}the requirements cannot be installed; the output of the installer:\n" in failed.err
        assert "no-such-package" in failed.err.partition("cannot be installed")[2]
        assert noetl("runs", "list", cwd=tmp_path).out == ""  # nothing has started

    def test_an_inherited_requirement_has_its_place_too(self, tmp_path: Path) -> None:
        head = f'{HEAD}executor: {{spec: {{python: {{requirements: ["--no-index", no-such-package]}}}}}}\n'
        failed = run(tmp_path, one_task(f"{{kind: python, {self.READ}}}", head))
        line = head.count("\n")
        assert f"noetl: playbook.yaml:{line}:57: the requirements cannot be installed" in failed.err

    def test_a_worker_names_the_place_of_a_requirement(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NOETL_CACHE", str(tmp_path / "cache"))
        inner = f'{{kind: python, requirements: ["--no-index", no-such-package], {self.READ}}}'
        text = one_task(
            f"\n          kind: iterator\n          in: [1]\n          iterator: x\n          tool: {inner}"
        )
        error = run_playbook(text).error or {}
        assert (error["line"], error["column"]) == (11, 61)
        assert "cannot be installed" in error["message"]

    def test_an_option_that_is_not_supported_is_refused(self, tmp_path: Path) -> None:
        failed = run(tmp_path, one_task(f'{{kind: python, requirements: ["--target /tmp/x", a], {self.READ}}}'))
        assert failed.code == 3
        assert (
            "playbook.yaml:7:42: error NTL521: the option --target is not supported; these are: --extra" in failed.err
        )

    def test_callers_at_the_same_time_install_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NOETL_CACHE", str(tmp_path / "cache"))
        path, lines = wheel(tmp_path, "noetl_probe", 7), list[str]()

        async def install() -> list[str]:
            return await asyncio.gather(*(packages_of([str(path)], "", lines.append) for _ in range(3)))

        (packages,) = set(asyncio.run(install()))
        assert (Path(packages) / "noetl_probe.py").read_text() == "VALUE = 7\n"
        assert [line.startswith(f"installing {path} into ") for line in lines] == [True]

    def test_a_worker_installs_before_the_first_call_and_logs_it(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NOETL_CACHE", str(place.folder / "cache"))
        path = wheel(place.folder / "wheels", "noetl_probe", 7)
        text = one_task(f"{{kind: python, requirements: [{path}], {self.READ}}}")
        assert place.run(text)["result"] == 7
        logs = place("runs", "logs", "last").out
        assert ("installing" in logs) == bool(place.env)

    def test_a_cache_that_cannot_be_written_names_the_setting(self, tmp_path: Path) -> None:
        file(tmp_path, "", "cache")
        failed = run(tmp_path, one_task(f"{{kind: python, requirements: [a], {self.READ}}}"))
        assert "set NOETL_CACHE to a folder that this process can write" in failed.err

    def test_sandboxed_code_can_read_the_packages(self, tmp_path: Path) -> None:
        if landlock_version() == 0:
            pytest.skip("this kernel has no Landlock")
        path = wheel(tmp_path / "wheels", "noetl_probe", 7).relative_to(tmp_path)
        task = f"{{kind: python, requirements: [./{path}], {self.READ}, spec: {{sandbox: landlock}}}}"
        done = run(tmp_path, one_task(task))
        assert (done.code, done.out) == (0, "7\n"), done.err


def test_the_log_of_an_installation_shows_no_password() -> None:
    text = "--index-url https://bot:hunter2@pkg.example/simple, a@git+https://token@git.example/a.git, b==1"
    shown = "--index-url https://****@pkg.example/simple, a@git+https://****@git.example/a.git, b==1"
    assert without_logins(text) == shown
