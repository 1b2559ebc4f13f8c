"""kind: container against a real engine: Podman, where it is installed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.servers.podman import IMAGE, Podman, missing, podman

from noetl.model.outcome import Outcome
from noetl.shell_text import prepare_shell
from noetl.tools.base import Context
from noetl.tools.container import Inputs, run

T = TypeVar("T")
SECRET = "open-sesame-1"
needs_podman = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def service() -> Iterator[Podman]:
    with podman() as result:
        yield result


@pytest.fixture
def engine(service: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman]:
    """The engine that calls find; at the end of a test it has no container."""
    monkeypatch.setenv("DOCKER_HOST", service.url)
    yield service
    assert service.run("ps", "--all", "--quiet") == ""


def play(story: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with asyncio.timeout(300):
            return await story()

    return asyncio.run(whole())


def call(
    command: str | list[str] | None = None,
    scope: dict[str, Any] | None = None,
    log: Callable[[str, str], None] = lambda stream, line: None,
    **inputs: Any,
) -> Awaitable[Outcome]:
    context = Context(
        execution="e1",
        action="action-1",
        attempt=1,
        step="step",
        task="task",
        timeout=None,
        args={},
        prev=None,
        log=log,
        bound={"command": prepare_shell(command)(scope or {})} if isinstance(command, str) else {},
        redact=lambda value: value.replace(SECRET, "***") if isinstance(value, str) else value,
    )
    return run(msgspec.convert({"image": IMAGE, "command": command, "network": "none"} | inputs, Inputs), context)


def outcome(command: str | list[str] | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
    return play(lambda: call(command, scope, **more))


def stdout(command: str | list[str] | None = None, scope: dict[str, Any] | None = None, **more: Any) -> str:
    result = outcome(command, scope, **more)
    assert result.error is None, result.error
    assert result.extra == {"container": {"exit_code": 0}}
    return str(result.result["stdout"])


def failure(command: str | list[str] | None = None, **more: Any) -> tuple[str, str]:
    result = outcome(command, **more)
    assert result.error is not None
    assert result.extra == {"container": {"exit_code": None}}
    return result.error.kind, result.error.message


@needs_podman
@pytest.mark.usefixtures("engine")
class TestContainer:
    def test_result_is_exit_code_and_both_streams(self) -> None:
        result = outcome("echo out; echo err >&2").result
        assert result == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}

    def test_exit_code(self) -> None:
        result = outcome("echo why >&2; exit 7")
        assert result.error is not None
        assert result.error.kind == "exit_code"
        assert result.error.message == f"the container of {IMAGE} ended with exit code 7: why"
        assert result.error.details == {"exit_code": 7, "stdout": "", "stderr": "why\n"}
        assert result.extra == {"container": {"exit_code": 7}}

    def test_lines_go_to_the_log(self) -> None:
        lines: list[tuple[str, str]] = []
        outcome("echo one; echo two >&2; printf three", log=lambda *line: lines.append(line))
        assert sorted(lines) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]

    def test_a_list_is_words_and_a_text_is_for_a_shell_with_templates_as_data(self) -> None:
        assert stdout(["echo", "$HOME", "{{ x }}"]) == "$HOME {{ x }}\n"
        assert stdout("echo '{{ x }}'", {"x": "'; exit 1 $(id)"}) == "'; exit 1 $(id)\n"

    def test_environment(self) -> None:
        result = stdout(["env"], env={"MINE": True, "GONE": None}).splitlines()
        assert {"MINE=true", "NOETL_ACTION_ID=action-1", "NOETL_EXECUTION_ID=e1", "NOETL_ATTEMPT=1"} <= set(result)
        assert not [line for line in result if line.startswith("GONE")]

    def test_input(self) -> None:
        assert stdout(["cat"], stdin="žluť\n" * 20_000) == "žluť\n" * 20_000
        assert stdout(["true"], stdin="nobody reads this") == ""

    def test_folder_user_and_entry_point(self) -> None:
        assert stdout("pwd; id -u", workdir="/tmp", user="1000:1000") == "/tmp\n1000\n"
        assert stdout(["b"], entrypoint=["echo", "a"]) == "a b\n"

    def test_mounts(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("mounted\n")
        result = outcome("cat /data/in; touch /data/out", mounts=[f"{tmp_path}:/data:ro"])
        assert result.error is not None
        assert result.error.details["stdout"] == "mounted\n"
        assert stdout("touch /data/out", mounts=[{"source": str(tmp_path), "target": "/data"}]) == ""
        assert (tmp_path / "out").exists()

    def test_no_network(self) -> None:
        assert stdout(["ls", "/sys/class/net"]).split() == ["lo"]

    def test_memory_limit(self) -> None:
        result = outcome(["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"], limits={"memory": "20m"})
        assert result.error is not None
        assert result.error.kind == "exit_code"
        assert result.extra["container"]["exit_code"] != 0

    def test_fork_bomb_ends_at_its_limit(self) -> None:
        result = outcome(
            "n=0; while [ $n -lt 300 ]; do sleep 200 & n=$((n+1)); done; echo all", limits={"pids": 20, "cpus": 0.5}
        )
        assert result.error is not None
        assert "fork" in result.error.details["stderr"]

    def test_a_container_of_a_lost_worker_is_removed(self, engine: Podman) -> None:
        label = ["--label", "io.noetl.action=action-1"]
        engine.run("run", "--detach", "--network", "none", *label, IMAGE, "sleep", "200")
        assert engine.run("ps", "--quiet") != ""
        assert stdout(["echo", "again"]) == "again\n"
        assert engine.run("ps", "--quiet") == ""

    def test_cancelling_removes_a_container_that_hears_no_signals(self) -> None:
        started = asyncio.Event()

        async def story() -> None:
            text = "trap '' TERM INT; echo started; while :; do sleep 1; done"
            task = asyncio.ensure_future(call(text, log=lambda stream, line: started.set()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        play(story)

    @pytest.mark.parametrize(
        ("inputs", "kind", "says"),
        [
            pytest.param({"image": "localhost/nope:1", "pull": "never"}, "not_found", "`pull` is `never`", id="never"),
            pytest.param({"image": "localhost:1/nope:1"}, "not_found", "could not be pulled", id="no registry"),
            pytest.param({"command": ["no-such"]}, "not_found", "no-such", id="program"),
            pytest.param({"mounts": ["a"]}, "input", "`source:target`", id="mount"),
            pytest.param({"limits": {"memory": "much"}}, "input", "limits.memory", id="memory"),
            pytest.param({"command": ["echo", SECRET]}, "input", "has a secret", id="secret"),
        ],
    )
    def test_what_cannot_be_run(self, inputs: dict[str, Any], kind: str, says: str) -> None:
        found_kind, message = failure(**inputs)
        assert (found_kind, says in message) == (kind, True), message


class TestNoEngine:
    def test_there_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
        kind, message = failure(["true"])
        assert (kind, f"there is no {tmp_path}/none" in message) == ("not_found", True)

    def test_an_address_of_another_kind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", "ssh://host")
        assert failure(["true"])[0] == "input"

    def test_nobody_listens(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{tmp_path}/s")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
        result = outcome(["true"])
        assert result.error is not None
        assert (result.error.kind, result.error.retryable) == ("connect", True)

    def test_somebody_else_listens(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(f"{tmp_path}/s", family=socket.AF_UNIX) as server:
            monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")

            def hang_up() -> None:
                connection, _ = server.accept()
                connection.recv(1000)
                connection.close()

            thread = threading.Thread(target=hang_up)
            thread.start()
            assert failure(["true"])[0] == "connect"
            thread.join()

    def test_text_that_was_not_bound_is_not_run(self) -> None:
        context = Context("e1", "a1", 1, "s", "t", None, {}, None, lambda stream, line: None)
        stage = play(lambda: run(Inputs(image=IMAGE, command="echo x"), context))
        assert stage.error is not None
        assert stage.error.kind == "internal"
