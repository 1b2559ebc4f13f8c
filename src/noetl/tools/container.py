"""kind: container. One container through the Docker API, on Docker or Podman.

The engine is found by `DOCKER_HOST`, else by the usual sockets of Docker and Podman. A container is made, runs to its
end and is removed, also when the call is cancelled. It carries the action id as a label: when a worker was lost, the
next one that runs the same action removes what is left of the container before it starts its own.

A command given as text goes through the shell of the image, with templates quoted as in kind `shell`; a list of words
is run as it is. Lines of output go to the log as they come, and of each stream 1 MiB is kept for the result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Env, Stdin
from noetl.tools.files import task_folder
from noetl.tools.sandbox import PROCESSES

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

    from noetl.tools.process.call import Output
    from noetl.tools.process.program import Ending

SOCKETS = ("/var/run/docker.sock", "{run}/podman/podman.sock", "/run/podman/podman.sock")
LABEL = "io.noetl.action"
ANSWER_SECONDS = 60.0
"""For an answer of the engine; what takes as long as it takes (pulling, running) has no such limit."""
FAREWELL_SECONDS = 10.0
READ_BYTES = 65536
HEAD_BYTES = 8
"""Before each piece of output: its stream and its length."""
STREAMS = {1: "stdout", 2: "stderr"}
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Mount(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[str, Meta(description="Folder or file on the host, or the name of a volume")]
    target: Annotated[str, Meta(description="Where the container sees it")]
    read_only: Annotated[bool, Meta(description="Forbid writing to it")] = False


class Limits(Struct, forbid_unknown_fields=True, kw_only=True):
    memory: Annotated[
        Annotated[int, Meta(ge=1)] | str | None, Meta(description="Memory in bytes, or as `512m`, `2g`")
    ] = None
    cpus: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Processors, in parts if need be")] = None
    pids: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Processes at once (512)")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    image: Annotated[str, Meta(description="Image to run, with tag or digest")]
    command: Annotated[
        str | list[str] | None,
        Meta(description="Command in place of the image's own: text goes through a shell, a list does not"),
    ] = None
    entrypoint: Annotated[str | list[str] | None, Meta(description="Entry point in place of the image's own")] = None
    env: Env = {}
    workdir: Annotated[str | None, Meta(description="Folder in the container to start in")] = None
    user: Annotated[str | int | None, Meta(description="User to run as: a name, an id, or `uid:gid`")] = None
    mounts: Annotated[list[str | Mount], Meta(description="Mounts: a map each, or `source:target[:ro]`")] = []
    limits: Annotated[Limits | None, Meta(description="What the container may use")] = None
    network: Annotated[str | None, Meta(description="Network to join; `none` cuts it off")] = None
    stdin: Stdin = None
    pull: Annotated[Literal["missing", "always", "never"], Meta(description="When to fetch the image")] = "missing"
    platform: Annotated[str | None, Meta(description="Platform of the image, such as `linux/arm64`")] = None
    auth: Auth = None


KIND = Kind(
    name="container",
    summary="Runs a container to its end; the result is `{exit_code, stdout, stderr}`",
    inputs=Inputs,
    timeout=3600,
    shell=("command",),
    outcome="container",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Make the container, run it to its end, remove it. Cancelling removes it too."""
    import httpx2

    extra = {"container": {"exit_code": None}}
    try:
        body = _body(inputs, context)
        sign_in = await context.credential(inputs.auth) if inputs.auth else None
        async with _engine() as engine:
            await _remove_leftovers(engine, context.action)
            await _provide(engine, inputs, sign_in)
            return await _run(engine, body, inputs, context)
    except Failure as failure:
        return Outcome("error", error=failure.outcome.error, extra=extra)
    except httpx2.TimeoutException:
        message = f"the container engine gave no answer for {ANSWER_SECONDS:.0f} s"
        return failed("timeout", message, retryable=True, extra=extra)
    except httpx2.RequestError as error:
        message = f"the container engine can't be reached: {error or type(error).__name__}"
        return failed("connect", message, retryable=True, extra=extra)


# -- the engine -------------------------------------------------------------------------------------------------------


def _engine() -> AsyncClient:
    """A client for the engine of this machine, or the one that DOCKER_HOST names."""
    import os

    import httpx2

    from noetl.tools.http_client.network import guard

    timeout = httpx2.Timeout(ANSWER_SECONDS)
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith(("tcp://", "http://")):
        address = "http://" + host.partition("://")[2]
        return guard(httpx2.AsyncClient(base_url=address, timeout=timeout, trust_env=False))
    transport = httpx2.AsyncHTTPTransport(uds=_socket(host))
    return httpx2.AsyncClient(base_url="http://engine", transport=transport, timeout=timeout, trust_env=False)


def _socket(host: str) -> str:
    import os

    if host and not host.startswith("unix://"):
        raise Failure("input", "DOCKER_HOST must begin with unix://, tcp:// or http://")
    run = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    places = [host.removeprefix("unix://")] if host else [place.format(run=run) for place in SOCKETS]
    for place in places:
        if os.path.exists(place):
            return place
    message = f"no container engine on this worker: there is no {', '.join(places)}; start Docker or Podman there"
    raise Failure("not_found", message)


async def _ask(engine: AsyncClient, method: str, path: str, **more: Any) -> Response:
    """An answer of the engine; Failure if it says no."""
    response = await engine.request(method, path, **more)
    if response.is_success or response.status_code == 304:
        return response
    raise _refused(response.status_code, _message(response), path)


def _refused(status: int, message: str, path: str) -> Failure:
    if status == 404:
        return Failure("not_found", f"the container engine says: {message}")
    if "executable file not found" in message or "no such file or directory" in message:
        return Failure("not_found", f"the container can't start: {message}")
    if status in (400, 409):
        return Failure("input", f"the container engine says: {message}")
    if status in (401, 403):
        return Failure("auth", f"the container engine says: {message}")
    return Failure("internal", f"the container engine answered {status} to {path}: {message}", retryable=status >= 500)


def _message(response: Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:300] or response.reason_phrase


# -- the image --------------------------------------------------------------------------------------------------------


async def _provide(engine: AsyncClient, inputs: Inputs, sign_in: dict[str, Any] | None) -> None:
    """Have the image there, as `pull` says."""
    from urllib.parse import quote

    if inputs.pull != "always":
        found = await engine.get(f"/images/{quote(inputs.image, safe='/:@')}/json")
        if found.is_success:
            return
        if found.status_code != 404:
            raise _refused(found.status_code, _message(found), "/images")
        if inputs.pull == "never":
            raise Failure("not_found", f"the image {inputs.image!r} is not on this worker, and `pull` is `never`")
    await _pull(engine, inputs, sign_in)


async def _pull(engine: AsyncClient, inputs: Inputs, sign_in: dict[str, Any] | None) -> None:
    import msgspec

    name = inputs.image if _has_tag(inputs.image) else f"{inputs.image}:latest"
    params = {"fromImage": name} | ({"platform": inputs.platform} if inputs.platform else {})
    headers = {"X-Registry-Auth": _sealed(sign_in)} if sign_in else {}
    async with engine.stream("POST", "/images/create", params=params, headers=headers, timeout=None) as answer:
        if not answer.is_success:
            await answer.aread()
            raise _refused(answer.status_code, f"{name}: {_message(answer)}", "/images/create")
        async for line in answer.aiter_lines():
            progress = msgspec.json.decode(line) if line.strip() else {}
            if "error" in progress:
                raise Failure("not_found", f"the image {name!r} could not be fetched: {progress['error']}")


def _has_tag(image: str) -> bool:
    return "@" in image or ":" in image.rpartition("/")[2]


def _sealed(sign_in: dict[str, Any]) -> str:
    """Credentials as the API wants them."""
    from base64 import urlsafe_b64encode

    import msgspec

    names = {"username": "username", "password": "password", "server": "serveraddress", "token": "identitytoken"}
    return urlsafe_b64encode(
        msgspec.json.encode({theirs: str(sign_in[ours]) for ours, theirs in names.items() if ours in sign_in})
    ).decode()


# -- the container ----------------------------------------------------------------------------------------------------


def _body(inputs: Inputs, context: Context) -> dict[str, Any]:
    """The container as the API wants it."""
    from noetl.tools.process.call import check_arguments, word

    entrypoint, command, bound = _command(inputs, context)
    check_arguments(context, [*(entrypoint or ()), *(command or ())])
    env = {"NOETL_ACTION_ID": context.action, "NOETL_EXECUTION_ID": context.execution}
    env |= {"NOETL_ATTEMPT": str(context.attempt)} | bound
    env |= {name: word(value) for name, value in inputs.env.items() if value is not None}
    removed = [name for name, value in inputs.env.items() if value is None]
    body: dict[str, Any] = {
        "Image": inputs.image,
        "Entrypoint": entrypoint,
        "Cmd": command,
        "Env": [*(f"{name}={value}" for name, value in env.items() if name not in removed), *removed],
        "WorkingDir": inputs.workdir,
        "User": None if inputs.user is None else str(inputs.user),
        "Labels": {LABEL: context.action, "io.noetl.execution": context.execution, "io.noetl.step": context.step},
        "HostConfig": _host(inputs),
    }
    if inputs.stdin is not None:
        body |= {"OpenStdin": True, "StdinOnce": True, "AttachStdin": True}
    return {name: value for name, value in body.items() if value is not None}


def _command(inputs: Inputs, context: Context) -> tuple[list[str] | None, list[str] | None, dict[str, str]]:
    """Entry point, command and the variables that the command refers to."""
    entrypoint = [inputs.entrypoint] if isinstance(inputs.entrypoint, str) else inputs.entrypoint
    if not isinstance(inputs.command, str):
        return entrypoint, inputs.command, {}
    text = context.bound.get("command")
    if text is None:
        raise Failure("internal", "the command was not prepared for a shell")
    shell = ["/bin/sh", "-c", text.text]
    return (shell[:2], shell[2:], text.env) if entrypoint is None else (entrypoint, shell, text.env)


def _host(inputs: Inputs) -> dict[str, Any]:
    limits = inputs.limits or Limits()
    found: dict[str, Any] = {
        "Mounts": [_mount(mount) for mount in inputs.mounts],
        "PidsLimit": limits.pids or PROCESSES,
        "SecurityOpt": ["no-new-privileges"],
    }
    if inputs.network is not None:
        found["NetworkMode"] = inputs.network
    if limits.memory is not None:
        found["Memory"] = found["MemorySwap"] = _bytes(limits.memory)
    if limits.cpus is not None:
        found["NanoCpus"] = int(limits.cpus * 1e9)
    return found


def _mount(mount: str | Mount) -> dict[str, Any]:
    import os

    if isinstance(mount, str):
        parts = mount.split(":")
        if len(parts) not in (2, 3) or parts[2:] not in ([], ["ro"], ["rw"]):
            raise Failure("input", f"the mount {mount!r} must be `source:target`, `source:target:ro` or a map")
        mount = Mount(source=parts[0], target=parts[1], read_only=parts[2:] == ["ro"])
    if mount.source.startswith(("/", ".")):
        task_folder(mount.source, "mounts")
        source = os.path.abspath(mount.source)
        return {"Type": "bind", "Source": source, "Target": mount.target, "ReadOnly": mount.read_only}
    return {"Type": "volume", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}


def _bytes(size: int | str) -> int:
    import re

    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmg]?)(?:i?b)?", str(size).lower())
    if found is None:
        raise Failure("input", f"limits.memory must be bytes, or a text such as `512m` or `2g`, not {size!r}")
    return int(float(found[1]) * UNITS[found[2]])


async def _run(engine: AsyncClient, body: dict[str, Any], inputs: Inputs, context: Context) -> Outcome:
    """Make, start, follow and remove one container."""
    from noetl.tools.process.call import Output, outcome_of, stdin_bytes

    stdin = stdin_bytes(inputs.stdin)
    params = {"platform": inputs.platform} if inputs.platform else {}
    made = (await _ask(engine, "POST", "/containers/create", json=body, params=params)).json()["Id"]
    output = Output(context)
    try:
        async with _attached(engine, made, stdin) as stream:
            await _ask(engine, "POST", f"/containers/{made}/start")
            await _take(stream, output)
            ending = await _ending(engine, made, inputs)
    finally:
        output.end()
        await _farewell(engine, made)
    return outcome_of("container", f"the container of {inputs.image}", ending, output.kept())


@asynccontextmanager
async def _attached(engine: AsyncClient, container: str, stdin: bytes | None) -> AsyncIterator[Any]:
    """The line to a container's streams, made before it starts so that nothing is missed.

    The logs of the engine are no substitute: while they are followed, Podman gives parts of lines in a wrong order.
    """
    import asyncio

    params = {"stream": "1", "stdout": "1", "stderr": "1"} | ({} if stdin is None else {"stdin": "1"})
    headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
    path = f"/containers/{container}/attach"
    async with engine.stream("POST", path, params=params, headers=headers, timeout=None) as answer:
        if answer.status_code != 101:
            await answer.aread()
            raise _refused(answer.status_code, _message(answer), path)
        stream = answer.extensions["network_stream"]
        feeding = asyncio.ensure_future(_feed(stream, stdin))
        try:
            yield stream
        finally:
            feeding.cancel()
            await asyncio.wait((feeding,))


async def _feed(stream: Any, text: bytes | None) -> None:
    """Write all of it and then its end. A container that does not read it, or has ended, is none the worse for that."""
    import socket

    from httpx2 import TransportError

    if text is not None:
        with suppress(OSError, TransportError):
            await stream.write(text)
            stream.get_extra_info("socket").shutdown(socket.SHUT_WR)


async def _take(stream: Any, output: Output) -> None:
    """Take the output of a container to its end."""
    rest = b""
    while data := await stream.read(READ_BYTES):
        rest = _frames(rest + data, output)


def _frames(data: bytes, output: Output) -> bytes:
    """Hand on the frames that are whole; what is left."""
    start = 0
    while (begin := start + HEAD_BYTES) <= len(data):
        end = begin + int.from_bytes(data[start + 4 : begin], "big")
        if end > len(data):
            break
        output.feed(STREAMS.get(data[start], "stdout"), data[begin:end])
        start = end
    return data[start:]


async def _ending(engine: AsyncClient, container: str, inputs: Inputs) -> Ending:
    from noetl.tools.process.program import Ending

    code = (await _ask(engine, "POST", f"/containers/{container}/wait", timeout=None)).json()["StatusCode"]
    state = (await _ask(engine, "GET", f"/containers/{container}/json")).json().get("State", {})
    memory = inputs.limits.memory if inputs.limits is not None else None
    broken = f"it took more memory than {memory}" if code != 0 and state.get("OOMKilled") else None
    return Ending(code, broken)


async def _farewell(engine: AsyncClient, container: str) -> None:
    """Kill and remove the container. A call that is cancelled once more does not keep that from happening."""
    import asyncio

    await asyncio.shield(asyncio.ensure_future(_remove(engine, container)))


async def _remove(engine: AsyncClient, container: str) -> None:
    import httpx2

    path = f"/containers/{container}"
    with suppress(httpx2.RequestError):  # then the next call of this action removes it
        await engine.post(f"{path}/kill", timeout=FAREWELL_SECONDS)  # else Podman would be patient with it
        await engine.delete(path, params={"force": "true", "v": "true"}, timeout=FAREWELL_SECONDS)


async def _remove_leftovers(engine: AsyncClient, action: str) -> None:
    """A worker that was lost may have left a container of this very action behind."""
    import msgspec

    filters = msgspec.json.encode({"label": [f"{LABEL}={action}"]}).decode()
    found = await _ask(engine, "GET", "/containers/json", params={"all": "true", "filters": filters})
    for one in found.json():
        await _remove(engine, one["Id"])
