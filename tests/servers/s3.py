"""An S3 server on loopback: moto's, in a thread of the test process."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import boto3
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
KEYS = {"access_key_id": "AKIAEXAMPLE", "secret_access_key": "s3cret-example"}


class S3Server(NamedTuple):
    endpoint: str
    client: Any
    """Amazon's own client: the tests look through it at what was really stored."""

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=KEYS["access_key_id"],
            aws_secret_access_key=KEYS["secret_access_key"],
        )
        yield S3Server(endpoint, client)
        client.close()
    finally:
        server.stop()
