"""`noetl` with leases that live for six seconds instead of thirty, and all that depends on it in proportion.

`python short_leases.py ARGUMENTS` is the command line of noetl. Everything else is as it is.
"""

from __future__ import annotations

import httpx2

from noetl.cli.start import main
from noetl.engine import leases as lease_rules
from noetl.host import heartbeats
from noetl.store.postgres import connection
from noetl.worker import heartbeat, http_link, server_client, terms

LEASE_SECONDS, GRANT_SECONDS, MARGIN_SECONDS = 6.0, 4.0, 1.0
BEAT_SECONDS, POLL_SECONDS, STALL_SECONDS = 1.0, 2.0, 1.5
DATABASE_SECONDS = 4.0


def shorten() -> None:
    lease_rules.LEASE_SECONDS = LEASE_SECONDS  # type: ignore[attr-defined]
    terms.LEASE_SECONDS = LEASE_SECONDS  # type: ignore[attr-defined]
    terms.GRANT_SECONDS = heartbeats.GRANT_SECONDS = GRANT_SECONDS  # type: ignore[attr-defined]
    terms.MARGIN_SECONDS = MARGIN_SECONDS
    connection.RESPONSE_SECONDS = DATABASE_SECONDS
    heartbeats.STALL_SECONDS = STALL_SECONDS
    heartbeat.Heartbeat.__init__.__kwdefaults__["seconds"] = BEAT_SECONDS
    heartbeat.TIMEOUT = httpx2.Timeout(1.0)
    http_link.POLL_SECONDS = POLL_SECONDS
    http_link.POLL = httpx2.Timeout(POLL_SECONDS + 1.0, connect=2.0)
    server_client.ServerClient.call.__kwdefaults__["limits"] = httpx2.Timeout(3.0, connect=2.0)


if __name__ == "__main__":
    shorten()
    main()
