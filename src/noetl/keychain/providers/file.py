"""provider: file. A file on the worker, such as one that an orchestrator mounts.

`noetl/file_access.py` has the rules: files of the kernel and of noetl itself are refused, and NOETL_SECRET_FILES can
restrict the folders.
"""

from __future__ import annotations

from noetl.file_access import FileRefused, open_checked
from noetl.keychain.providers import ProviderRequest

MAX_BYTES = 2**20


async def read(request: ProviderRequest) -> str:
    import asyncio

    return await asyncio.to_thread(_read, request)


def _read(request: ProviderRequest) -> str:
    try:
        with open_checked(request.key, "secret", request.environment) as file:
            data = file.read(MAX_BYTES + 1)
    except FileRefused as error:
        raise request.failure("auth", str(error)) from None
    except FileNotFoundError:
        raise request.failure("not_found", f"the worker has no file {request.key}") from None
    except OSError as error:
        raise request.failure("auth", f"cannot read {request.key}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise request.failure("auth", f"{request.key} is larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise request.failure("auth", f"{request.key} is not UTF-8 text") from None
