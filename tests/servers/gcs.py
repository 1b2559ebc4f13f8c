"""A Google Cloud Storage server on loopback: an emulator, in a thread of the test process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gcp_storage_emulator.server import create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client


class GcsServer(NamedTuple):
    endpoint: str
    client: Any
    """Google's own client: the tests look through it at what was really stored."""

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex}"
        self.client.create_bucket(name, project="test")
        return name


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    try:
        port = server._api._httpd.socket.getsockname()[1]
        endpoint = f"http://127.0.0.1:{port}"
        client = Client(project=None, credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint})
        yield GcsServer(endpoint, client)
        client.close()
    finally:
        server.stop()
