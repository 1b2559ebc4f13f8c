"""kind: container. One container through the Docker API, on Docker or Podman.

A container is created, runs to its end and is removed, also when the call is cancelled. It has the action id as a
label: after a worker was lost, the next one that runs the same action removes the old container before it starts its
own. A command that is text runs in the shell of the image, with templates bound as in kind `shell`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Env, Stdin


class Mount(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[str, doc("Folder or file on the host, or the name of a volume")]
    target: Annotated[str, doc("Where it is mounted in the container")]
    read_only: Annotated[bool, doc("Mount it read-only")] = False


class Limits(Struct, forbid_unknown_fields=True, kw_only=True):
    memory: Annotated[Annotated[int, Meta(ge=1)] | str | None, doc("Memory in bytes, or as `512m`, `2g`")] = None
    cpus: Annotated[Annotated[float, Meta(gt=0)] | None, doc("Number of processors, such as 0.5")] = None
    pids: Annotated[Annotated[int, Meta(ge=1)] | None, doc("Maximum number of processes (512)")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    image: Annotated[str, doc("Image to run, with tag or digest")]
    command: Annotated[
        str | list[str] | None, doc("Command in place of the image's own: text runs in a shell, a list does not")
    ] = None
    entrypoint: Annotated[str | list[str] | None, doc("Entry point in place of the image's own")] = None
    env: Env = {}
    workdir: Annotated[str | None, doc("Folder in the container to start in")] = None
    user: Annotated[str | int | None, doc("User to run as: a name, an id, or `uid:gid`")] = None
    mounts: Annotated[list[str | Mount], doc("Mounts: a map each, or `source:target[:ro]`")] = []
    limits: Annotated[Limits | None, doc("Resource limits of the container")] = None
    network: Annotated[str | None, doc("Network to join; `none` for no network")] = None
    stdin: Stdin = None
    pull: Annotated[Literal["missing", "always", "never"], doc("When to fetch the image")] = "missing"
    platform: Annotated[str | None, doc("Platform of the image, such as `linux/arm64`")] = None
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
    from noetl.tools.container_engine import run_container

    return await run_container(inputs, context)
