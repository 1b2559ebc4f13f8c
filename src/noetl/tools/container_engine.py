"""One call of `kind: container`."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from httpx2 import AsyncClient, Response

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.container import Inputs, Limits, Mount
from noetl.tools.files import task_folder
from noetl.tools.http_client.network import guard
from noetl.tools.process.program import Ending, ProcessOutput, call_variables, check_arguments, encode, outcome_of, word
from noetl.tools.sandbox import PROCESSES

SOCKETS = ("/var/run/docker.sock", "{run}/podman/podman.sock", "/run/podman/podman.sock")
LABEL = "io.noetl.action"
RESPONSE_SECONDS = 60.0
"""For a response of the engine; pulling an image and running a container have no such limit."""
REMOVE_SECONDS = 10.0
ERROR_KINDS = {400: "input", 401: "auth", 403: "auth", 404: "not_found", 409: "input"}
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
REGISTRY_FIELDS = {"username": "username", "password": "password", "server": "serveraddress", "token": "identitytoken"}


async def run_container(inputs: Inputs, context: Context) -> Outcome:
    extra = {"container": {"exit_code": None}}
    try:
        body = _body(inputs, context)
        registry = await context.credential(inputs.auth) if inputs.auth else None
        async with _engine() as engine:
            filters = msgspec.json.encode({"label": [f"{LABEL}={context.action}"]}).decode()
            query = {"all": "true", "filters": filters}
            for container in (await _request(engine, "GET", "/containers/json", params=query)).json():
                await _remove(engine, container["Id"])  # a lost worker has left it
            await _ensure_image(engine, inputs, registry)
            return await _run(engine, body, inputs, context)
    except Failure as failure:
        return Outcome("error", error=failure.outcome.error, extra=extra)
    except httpx2.TimeoutException:
        message = f"the container engine did not respond within {RESPONSE_SECONDS:.0f} s"
        return failed("timeout", message, retryable=True, extra=extra)
    except httpx2.RequestError as error:
        message = f"the container engine cannot be reached: {error or type(error).__name__}"
        return failed("connect", message, retryable=True, extra=extra)


def _engine() -> AsyncClient:
    timeout = httpx2.Timeout(RESPONSE_SECONDS)
    host = os.environ.get("DOCKER_HOST", "")
    address = host.partition("://")[2]
    if host.startswith(("tcp://", "http://")):
        return guard(httpx2.AsyncClient(base_url=f"http://{address}", timeout=timeout, trust_env=False))
    if host and not host.startswith("unix://"):
        raise Failure("input", "DOCKER_HOST must begin with unix://, tcp:// or http://")
    run = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    paths = [address] if host else [path.format(run=run) for path in SOCKETS]
    for path in filter(os.path.exists, paths):
        transport = httpx2.AsyncHTTPTransport(uds=path)
        return httpx2.AsyncClient(base_url="http://engine", transport=transport, timeout=timeout, trust_env=False)
    message = f"no container engine on this worker: there is no {', '.join(paths)}; start Docker or Podman there"
    raise Failure("not_found", message)


async def _request(engine: AsyncClient, method: str, path: str, **more: Any) -> Response:
    response = await engine.request(method, path, **more)
    if response.is_success or response.status_code == 304:
        return response
    raise _failure(response, path)


def _failure(response: Response, path: str, image: str = "") -> Failure:
    status = response.status_code
    try:
        message = image + str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = image + (response.text[:300] or response.reason_phrase)
    if status != 404 and ("executable file not found" in message or "no such file or directory" in message):
        return Failure("not_found", f"the container cannot start: {message}")
    if kind := ERROR_KINDS.get(status):
        return Failure(kind, f"the container engine reports: {message}")
    message = f"the container engine responded with {status} to {path}: {message}"
    return Failure("internal", message, retryable=status >= 500)


async def _ensure_image(engine: AsyncClient, inputs: Inputs, registry: dict[str, Any] | None) -> None:
    if inputs.pull != "always":
        response = await engine.get(f"/images/{quote(inputs.image, safe='/:@')}/json")
        if response.is_success:
            return
        if response.status_code != 404:
            raise _failure(response, "/images")
        if inputs.pull == "never":
            raise Failure("not_found", f"the image {inputs.image!r} is not on this worker, and `pull` is `never`")
    has_tag = "@" in inputs.image or ":" in inputs.image.rpartition("/")[2]
    name = inputs.image if has_tag else f"{inputs.image}:latest"
    params = {"fromImage": name} | ({"platform": inputs.platform} if inputs.platform else {})
    headers = {}
    if registry:
        fields = {api_name: str(registry[field]) for field, api_name in REGISTRY_FIELDS.items() if field in registry}
        headers["X-Registry-Auth"] = urlsafe_b64encode(msgspec.json.encode(fields)).decode()
    async with engine.stream("POST", "/images/create", params=params, headers=headers, timeout=None) as response:
        if not response.is_success:
            await response.aread()
            raise _failure(response, "/images/create", f"{name}: ")
        async for line in response.aiter_lines():
            progress = msgspec.json.decode(line) if line.strip() else {}
            if "error" in progress:
                raise Failure("not_found", f"the image {name!r} could not be pulled: {progress['error']}")


def _body(inputs: Inputs, context: Context) -> dict[str, Any]:
    entrypoint = [inputs.entrypoint] if isinstance(inputs.entrypoint, str) else inputs.entrypoint
    command, bound = inputs.command, {}
    if isinstance(command, str):
        text = context.bound.get("command")
        if text is None:
            raise Failure("internal", "the command was not prepared for a shell")
        shell, bound = ["/bin/sh", "-c", text.text], text.env
        entrypoint, command = (shell[:2], shell[2:]) if entrypoint is None else (entrypoint, shell)
    check_arguments(context, [*(entrypoint or ()), *(command or ())])
    env = call_variables(context) | bound
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
        "HostConfig": _host_config(inputs),
    }
    if inputs.stdin is not None:
        body |= {"OpenStdin": True, "StdinOnce": True, "AttachStdin": True}
    return {name: value for name, value in body.items() if value is not None}


def _host_config(inputs: Inputs) -> dict[str, Any]:
    limits = inputs.limits or Limits()
    memory = None
    if limits.memory is not None:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmg]?)(?:i?b)?", str(limits.memory).lower())
        if match is None:
            reason = f"must be bytes, or a text such as `512m` or `2g`, not {limits.memory!r}"
            raise Failure("input", f"limits.memory {reason}")
        memory = int(float(match[1]) * UNITS[match[2]])
    config: dict[str, Any] = {
        "Mounts": [_mount(mount) for mount in inputs.mounts],
        "PidsLimit": limits.pids or PROCESSES,
        "SecurityOpt": ["no-new-privileges"],
        "NetworkMode": inputs.network,
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": None if limits.cpus is None else int(limits.cpus * 1e9),
    }
    return {name: value for name, value in config.items() if value is not None}


def _mount(mount: str | Mount) -> dict[str, Any]:
    if isinstance(mount, str):
        parts = mount.split(":")
        if len(parts) not in (2, 3) or parts[2:] not in ([], ["ro"], ["rw"]):
            raise Failure("input", f"the mount {mount!r} must be `source:target`, `source:target:ro` or a map")
        mount = Mount(source=parts[0], target=parts[1], read_only=parts[2:] == ["ro"])
    kind, source = "volume", mount.source
    if source.startswith(("/", ".")):
        task_folder(source, "mounts")
        kind, source = "bind", os.path.abspath(source)
    return {"Type": kind, "Source": source, "Target": mount.target, "ReadOnly": mount.read_only}


async def _run(engine: AsyncClient, body: dict[str, Any], inputs: Inputs, context: Context) -> Outcome:
    stdin = None if inputs.stdin is None else encode(inputs.stdin)
    params = {"platform": inputs.platform} if inputs.platform else {}
    container = (await _request(engine, "POST", "/containers/create", json=body, params=params)).json()["Id"]
    output = ProcessOutput(context)
    try:
        async with _attached(engine, container, stdin) as stream:
            await _request(engine, "POST", f"/containers/{container}/start")
            rest = b""
            while data := await stream.read(65536):
                rest = _feed_frames(rest + data, output)
            finished = await _request(engine, "POST", f"/containers/{container}/wait", timeout=None)
            described = await _request(engine, "GET", f"/containers/{container}/json")
    finally:
        output.end()
        # Shielded, so that a second cancellation does not prevent it.
        await asyncio.shield(asyncio.ensure_future(_remove(engine, container)))
    code = finished.json()["StatusCode"]
    broken = None
    if code != 0 and described.json().get("State", {}).get("OOMKilled"):
        broken = f"it used more memory than {inputs.limits.memory if inputs.limits is not None else None}"
    return outcome_of("container", f"the container of {inputs.image}", Ending(code, broken), output.captured())


@asynccontextmanager
async def _attached(engine: AsyncClient, container: str, stdin: bytes | None) -> AsyncIterator[Any]:
    """The connection to a container's streams, opened before it starts so that no output is missed. The logs of the
    engine are no substitute: while they are followed, Podman reorders parts of lines."""
    params = {"stream": "1", "stdout": "1", "stderr": "1"} | ({} if stdin is None else {"stdin": "1"})
    headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
    path = f"/containers/{container}/attach"
    async with engine.stream("POST", path, params=params, headers=headers, timeout=None) as response:
        if response.status_code != 101:
            await response.aread()
            raise _failure(response, path)
        stream = response.extensions["network_stream"]

        async def write() -> None:
            """A container that does not read its input, or has ended, is not an error."""
            if stdin is not None:
                with suppress(OSError, httpx2.TransportError):
                    await stream.write(stdin)
                    stream.get_extra_info("socket").shutdown(socket.SHUT_WR)

        writing = asyncio.ensure_future(write())
        try:
            yield stream
        finally:
            writing.cancel()
            await asyncio.wait((writing,))


def _feed_frames(data: bytes, output: ProcessOutput) -> bytes:
    start = 0
    while (begin := start + 8) <= len(data):  # the header: the number of the stream, and the length
        end = begin + int.from_bytes(data[start + 4 : begin], "big")
        if end > len(data):
            break
        output.feed("stderr" if data[start] == 2 else "stdout", data[begin:end])
        start = end
    return data[start:]


async def _remove(engine: AsyncClient, container: str) -> None:
    path = f"/containers/{container}"
    with suppress(httpx2.RequestError):  # then the next call of this action removes it
        await engine.post(f"{path}/kill", timeout=REMOVE_SECONDS)  # or else Podman waits for its end
        await engine.delete(path, params={"force": "true", "v": "true"}, timeout=REMOVE_SECONDS)
