"""kind: container. One container through the Docker API, on Docker or Podman.

A container is created, runs to its end and is removed, also when the call is cancelled. It has the action id as a
label: after a worker was lost, the next one that runs the same action removes the old container before it starts its
own. A command that is text runs in the shell of the image, with templates bound as in kind `shell`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Env, Stdin


class Mount(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[str, Meta(description="Folder or file on the host, or the name of a volume")]
    target: Annotated[str, Meta(description="Where it is mounted in the container")]
    read_only: Annotated[bool, Meta(description="Mount it read-only")] = False


class Limits(Struct, forbid_unknown_fields=True, kw_only=True):
    memory: Annotated[
        Annotated[int, Meta(ge=1)] | str | None, Meta(description="Memory in bytes, or as `512m`, `2g`")
    ] = None
    cpus: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Number of processors, such as 0.5")] = None
    pids: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Maximum number of processes (512)")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    image: Annotated[str, Meta(description="Image to run, with tag or digest")]
    command: Annotated[
        str | list[str] | None,
        Meta(description="Command in place of the image's own: text runs in a shell, a list does not"),
    ] = None
    entrypoint: Annotated[str | list[str] | None, Meta(description="Entry point in place of the image's own")] = None
    env: Env = {}
    workdir: Annotated[str | None, Meta(description="Folder in the container to start in")] = None
    user: Annotated[str | int | None, Meta(description="User to run as: a name, an id, or `uid:gid`")] = None
    mounts: Annotated[list[str | Mount], Meta(description="Mounts: a map each, or `source:target[:ro]`")] = []
    limits: Annotated[Limits | None, Meta(description="Resource limits of the container")] = None
    network: Annotated[str | None, Meta(description="Network to join; `none` for no network")] = None
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
    from noetl.tools.container_engine import run_container

    return await run_container(inputs, context)
