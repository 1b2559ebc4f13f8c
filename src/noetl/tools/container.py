"""kind: container. One container through the Docker API, on Docker or Podman."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth, Env, Stdin


class Mount(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[str, Meta(description="Folder or file on the host, or the name of a volume")]
    target: Annotated[str, Meta(description="Where the container sees it")]
    read_only: Annotated[bool, Meta(description="Forbid writing to it")] = False


class Limits(Struct, forbid_unknown_fields=True, kw_only=True):
    memory: Annotated[
        Annotated[int, Meta(ge=1)] | str | None, Meta(description="Memory in bytes, or as `512m`, `2g`")
    ] = None
    cpus: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Processors, in parts if need be")] = None
    pids: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Processes at once")] = None


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
    outcome="container",
)
