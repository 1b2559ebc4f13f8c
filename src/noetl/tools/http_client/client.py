"""Clients. Each holds the connections of one event loop that share their TLS options."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from asyncio import AbstractEventLoop
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from weakref import WeakKeyDictionary

from httpx2 import AsyncClient, Limits, create_ssl_context

from noetl.tools.http import Tls
from noetl.tools.http_client.network import guard
from noetl.tools.http_client.request import InputError

KEEP_ALIVE_SECONDS = 4.0
"""Below the 5 seconds after which many servers close an idle connection, so that no request is sent on a closed one."""
KEEP_ALIVE_CONNECTIONS = 256

_clients: WeakKeyDictionary[AbstractEventLoop, dict[Any, AsyncClient]] = WeakKeyDictionary()


def client_for(tls: Tls | None) -> AsyncClient:
    """The client of this event loop for these options; InputError if they can't be used."""
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    key = None if tls is None else _identity(tls)
    if key not in clients:
        clients[key] = _new(tls or Tls())
    return clients[key]


async def close_clients() -> None:
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()


def _identity(tls: Tls) -> tuple[Any, ...]:
    """The options and the age of their files: a renewed certificate takes effect at once."""
    ages: list[tuple[str, int] | None] = []
    for file in (tls.ca, tls.cert, tls.key):
        try:
            ages.append(None if file is None else (file, os.stat(file).st_mtime_ns))
        except (OSError, ValueError):
            raise InputError(f"`tls`: this worker has no file {file!r}", "not_found") from None
    return tls.verify, *ages


def _new(tls: Tls) -> AsyncClient:
    # Both log URLs and headers, and with them secrets.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    client = AsyncClient(
        verify=_context(tls),
        # The slots of the worker limit how many requests run at once.
        limits=Limits(
            max_connections=None,
            max_keepalive_connections=KEEP_ALIVE_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
        ),
        headers={"User-Agent": _user_agent(), "Accept-Encoding": "gzip, deflate"},
        # Unrelated executions share the client: it stores no cookie.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=None,
    )
    return guard(client)


def _context(tls: Tls) -> ssl.SSLContext:
    if tls.key is not None and tls.cert is None:
        raise InputError("`tls.key` needs `tls.cert`")
    try:
        if tls.verify and tls.ca is not None:
            context = ssl.create_default_context(cafile=tls.ca)
        else:
            context = create_ssl_context(verify=tls.verify)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password="")  # without one OpenSSL would ask on the terminal
    except OSError as error:
        raise InputError(f"`tls`: the files can't be used: {error}") from None
    return context


def _user_agent() -> str:
    try:
        return f"noetl/{version('noetl-engine')}"
    except PackageNotFoundError:
        return "noetl"
