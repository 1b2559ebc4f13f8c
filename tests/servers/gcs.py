"""A Google Cloud Storage server on loopback: an emulator, in a thread of the test process.

The emulator speaks Google's JSON API, with which the tests look at what was really stored. obstore speaks the XML API:
`XmlApi` adds it, over the emulator's own storage.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import format_datetime
from functools import partial
from http.server import HTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers.objects import _checksums, _copy, _make_object_resource
from gcp_storage_emulator.server import APIThread, RequestHandler, create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

JSON_API = ("/storage/", "/upload/", "/download/", "/batch/")
META = "x-goog-meta-"


class GcsServer(NamedTuple):
    endpoint: str
    client: Any
    """Google's own client: the tests look through it at what was really stored."""

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex}"
        self.client.create_bucket(name, project="test")
        return name


class MultipartUpload(NamedTuple):
    headers: dict[str, str]
    parts: dict[int, bytes]


class XmlApi(RequestHandler):  # type: ignore[misc]
    """The requests of the XML API that obstore sends: https://cloud.google.com/storage/docs/xml-api/reference-methods"""

    def __init__(self, uploads: dict[str, MultipartUpload], *args: Any) -> None:
        self.uploads = uploads
        super().__init__(*args)

    def do_GET(self) -> None:
        self._answer(super().do_GET)

    def do_HEAD(self) -> None:
        self._answer(None)

    def do_PUT(self) -> None:
        self._answer(super().do_PUT)

    def do_POST(self) -> None:
        self._answer(super().do_POST)

    def do_DELETE(self) -> None:
        self._answer(super().do_DELETE)

    def _answer(self, json_api: Any) -> None:
        if self.path.startswith(JSON_API):
            json_api()
            return
        url = urlsplit(self.path)
        bucket, _, key = url.path.removeprefix("/").partition("/")
        self.base = f"http://{self.headers['Host']}"
        self.bucket, self.key = unquote(bucket), unquote(key)
        self.query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if not self.storage.get_bucket(self.bucket):
                raise NotFound
            getattr(self, f"_xml_{self.command.lower()}")()
        except NotFound:
            self._send(404)

    def _xml_get(self) -> None:
        if not self.key:
            self._list()
            return
        stored = self.storage.get_file_obj(self.bucket, self.key)
        content = self.storage.get_file(self.bucket, self.key)
        headers = {f"{META}{name}": value for name, value in (stored.get("metadata") or {}).items()}
        headers["Last-Modified"] = format_datetime(datetime.fromisoformat(stored["updated"]), usegmt=True)
        headers["Content-Type"] = stored["contentType"]
        self._send(200, content, ETag=stored["etag"], **headers)

    _xml_head = _xml_get

    def _list(self) -> None:
        files, _ = self.storage.get_file_list(self.bucket, self.query.get("prefix"), None, None)
        after = self.query.get("start-after", "")
        contents = "".join(
            f"<Contents><Key>{escape(file['name'])}</Key><LastModified>{file['updated']}</LastModified>"
            f"<ETag>{file['etag']}</ETag><Size>{file['size']}</Size></Contents>"
            for file in sorted(files, key=lambda file: str(file["name"]))
            if file["name"] > after
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        self._send(200, body.encode())

    def _xml_put(self) -> None:
        if source := self.headers.get("x-goog-copy-source"):
            bucket, _, key = unquote(source).partition("/")
            stored = _copy(self.base, self.storage, bucket, key, self.bucket, self.key)
            self._send(200, b"<CopyObjectResult/>", ETag=stored["etag"])
        elif "uploadId" in self.query:
            self.uploads[self.query["uploadId"]].parts[int(self.query["partNumber"])] = self.body
            self._send(200, ETag=self.query["partNumber"])
        else:
            self._store(self.body, dict(self.headers.items()))

    def _xml_post(self) -> None:
        if "uploads" in self.query:
            upload = uuid.uuid4().hex
            self.uploads[upload] = MultipartUpload(dict(self.headers.items()), {})
            body = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            self._send(200, body.encode())
            return
        headers, parts = self.uploads.pop(self.query["uploadId"])
        self._store(b"".join(parts[number] for number in sorted(parts)), headers, multipart=True)

    def _xml_delete(self) -> None:
        self.storage.get_file_obj(self.bucket, self.key)
        self.storage.delete_file(self.bucket, self.key)
        self._send(204)

    def _store(self, content: bytes, headers: dict[str, str], multipart: bool = False) -> None:
        headers = {name.lower(): value for name, value in headers.items()}
        media = headers.get("content-type", "application/octet-stream")
        stored = _make_object_resource(self.base, self.bucket, self.key, media, str(len(content)))
        stored["metadata"] = {name.removeprefix(META): v for name, v in headers.items() if name.startswith(META)}
        self.storage.create_file(self.bucket, self.key, content, _checksums(content, stored))
        etag = escape(stored["etag"])
        body = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        self._send(200, body.encode() if multipart else b"", ETag=stored["etag"])

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Api(APIThread):  # type: ignore[misc]
    def run(self) -> None:
        self._httpd = HTTPServer((self._host, self._port), partial(XmlApi, {}, self._storage))
        self.is_running.set()
        self._httpd.serve_forever()


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    server = create_server("127.0.0.1", 0, in_memory=True)
    server._api = Api("127.0.0.1", 0, server._storage)
    server.start()
    try:
        port = server._api._httpd.socket.getsockname()[1]
        endpoint = f"http://127.0.0.1:{port}"
        client = Client(project=None, credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint})
        yield GcsServer(endpoint, client)
        client.close()
    finally:
        server.stop()
