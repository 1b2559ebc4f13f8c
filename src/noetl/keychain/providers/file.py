"""provider: file. A file on the worker, such as one that an orchestrator mounts."""

from __future__ import annotations

from noetl.keychain.providers import Request
from noetl.settings import master_key_settings

MAX_BYTES = 2**20


async def read(request: Request) -> str:
    import asyncio

    return await asyncio.to_thread(_read, request)


def _read(request: Request) -> str:
    from pathlib import Path

    path = Path(request.key).expanduser()
    if path.resolve() == Path(master_key_settings(request.environment).file).resolve():
        raise request.failure("auth", "the master key is not a secret for playbooks")
    try:
        if path.exists() and not path.is_file():  # reading a pipe could take for ever
            raise request.failure("auth", f"{request.key} is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise request.failure("not_found", f"there is no file {request.key} on the worker") from None
    except OSError as error:
        raise request.failure("auth", f"{request.key} can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise request.failure("auth", f"{request.key} is larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise request.failure("auth", f"{request.key} is not a text in UTF-8") from None
