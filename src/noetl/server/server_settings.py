"""The settings of a server. `noetl server --help` reads them, so nothing here needs the extra `server`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl.log import Log
from noetl.runtime.runtime import OpenCredential, no_credentials
from noetl.server.page_files import FOLDER

if TYPE_CHECKING:
    from noetl.keychain.safe import Safe
    from noetl.nats.connection import NatsConnection


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    hosts: tuple[str, ...] = ()  # host names that it accepts, in addition to `localhost` and addresses
    version: str = ""
    page: Path = FOLDER  # of a build of the web page
    log_requests: bool = True
    open_credential: OpenCredential = no_credentials
    safe: Safe | None = None  # the store of credentials; without it the server has none
    bus: NatsConnection | None = None  # the connection to NATS, which the caller keeps running
    traces: str | None = None  # URL that receives spans over OTLP/HTTP; None: no spans
    log: Log = msgspec.field(default_factory=Log)  # default: JSON on standard error
