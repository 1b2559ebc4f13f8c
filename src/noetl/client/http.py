"""The client of a server. A response with an error status becomes the error that a database would have raised."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
import msgspec

from noetl.client.ports import ALL, PAGE, Items, Json, RunsPort, Warn
from noetl.dsl.problem import Problem
from noetl.errors import AuthError, Conflict, NoetlError, NotFound, PlaybookInvalid, ServerUnreachable, UsageError
from noetl.settings import ServerAddress, is_this_machine

if TYPE_CHECKING:
    from noetl.runtime.catalog import PlaybookSource
    from noetl.store.access import Role

CALL = httpx2.Timeout(60.0, connect=5.0)
LONG_CALL = httpx2.Timeout(None, connect=5.0)
"""For requests that may take the server long."""
RETRY_SECONDS = 0.5
START_RETRIES = 2


class Http:
    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        self.client = httpx2.Client(base_url=f"{address.url}/api/v1", headers=headers, timeout=CALL)

    def get(self, path: str, *, timeout: httpx2.Timeout = CALL, **query: Any) -> Json:
        return self._json("GET", path, query, timeout=timeout)

    def post(self, path: str, body: Json | None = None, *, timeout: httpx2.Timeout = CALL, key: str = "") -> Json:
        """`key` is an Idempotency-Key."""
        headers = {"Idempotency-Key": key} if key else {}
        content = msgspec.json.encode(body or {})
        return self._json("POST", path, {}, content=content, headers=headers, timeout=timeout)

    def post_text(self, path: str, text: bytes, **query: Any) -> Json:
        return self._json("POST", path, query, content=text, headers={"Content-Type": "application/yaml"})

    def put(self, path: str, body: Json) -> Json:
        return self._json("PUT", path, {}, content=msgspec.json.encode(body))

    def delete(self, path: str) -> None:
        self.send("DELETE", path)

    def items(self, path: str, limit: int = ALL, **query: Any) -> Iterator[Json]:
        cursor = None
        while limit > 0:
            page = self.get(path, cursor=cursor, limit=min(limit, PAGE), **query)
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page.get("next")
            if not cursor:
                return

    def start(self, path: str, body: Json) -> Json:
        """Send a request that starts an execution. It is sent again if no response arrives, and starts only one."""
        key = secrets.token_hex(16)
        for _ in range(START_RETRIES):
            try:
                return self.post(path, body, key=key)
            except ServerUnreachable as error:
                if isinstance(error.__cause__, httpx2.ConnectError | httpx2.InvalidURL):
                    raise
                time.sleep(RETRY_SECONDS)
        return self.post(path, body, key=key)

    def _json(self, method: str, path: str, query: Json, **options: Any) -> Json:
        params = {name: value for name, value in query.items() if value is not None}
        content = self.send(method, path, params=params, **options).content
        return msgspec.json.decode(content, type=dict[str, Any]) if content else {}

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        if "content" in options:
            options["headers"] = {"Content-Type": "application/json"} | options.get("headers", {})
        with self.reaching():
            response = self.client.request(method, path, **options)
        if not response.is_success:
            raise error_of(response)
        return response

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """ServerUnreachable for errors of the connection."""
        try:
            yield
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise ServerUnreachable(f"no server answers at {self.address.url}: {why}") from error


def error_of(response: httpx2.Response) -> NoetlError:
    """The error of a response, which has the same exit code as that of a database."""
    try:
        body = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        body = None
    problem = body if isinstance(body, dict) else {}
    detail = str(problem.get("detail") or problem.get("title") or response.text[:200] or response.reason_phrase)
    match response.status_code:
        case 401:
            host = response.request.url.host
            return AuthError(f"{detail}; set NOETL_TOKEN or NOETL_TOKEN_FILE to a token of {host}")
        case 403:
            return AuthError(detail)
        case 404 | 410:
            return NotFound(detail)
        case 409 | 412:
            return Conflict(detail)
        case 422 if problem.get("problems"):
            return PlaybookInvalid([problem_of(fault) for fault in problem["problems"]])
        case 400 | 413 | 415 | 422:
            return UsageError(detail)
    return NoetlError(f"the server responded with status {response.status_code}: {detail}")


def problem_of(fault: Json, **more: str) -> Problem:
    """A problem of a playbook as the API describes it. Fields of newer versions are left out."""
    fields = {"source": ""} | fault | more
    return msgspec.convert({name: fields[name] for name in Problem.__struct_fields__ if name in fields}, Problem)


class HttpClient:
    def __init__(self, address: ServerAddress, warn: Warn) -> None:
        self.http = Http(address)
        if address.url.startswith("http://") and not is_this_machine(address.url):
            warn(f"noetl: {address.url} is not encrypted: others can read the token")
        self.catalog = HttpCatalog(self.http)
        self.credentials = HttpCredentials(self.http)
        self.tokens = HttpTokens(self.http)
        self.users = HttpUsers(self.http)
        self.schedules = HttpSchedules(self.http)
        self.hooks = HttpHooks(self.http)

    @cached_property
    def runs(self) -> RunsPort:
        from noetl.client.http_runs import HttpRuns

        return HttpRuns(self.http)

    def close(self) -> None:
        self.http.client.close()


class HttpResource:
    path = ""

    def __init__(self, http: Http) -> None:
        self.http = http

    def list(self) -> Items:
        return list(self.http.get(self.path)["items"])

    def delete(self, name: str) -> None:
        self.http.delete(f"{self.path}/{name}")


class HttpCatalog:
    def __init__(self, http: Http) -> None:
        self.http = http

    def register(self, source: PlaybookSource) -> Json:
        body = self.http.post_text("/playbooks", source.text)
        return {key: body[key] for key in ("playbook_id", "path", "version")}

    def list(self, prefix: str) -> Items:
        return list(self.http.items("/playbooks", prefix=prefix or None))

    def get(self, path: str, version: int | None) -> Json:
        return self.http.get(f"/playbooks/{quote(path)}", version=version)

    def validate(self, text: bytes, strict: bool) -> Json:
        return self.http.post_text("/playbooks/validate", text, strict="true" if strict else None)


class HttpCredentials(HttpResource):
    path = "/credentials"

    def set(self, name: str, kind: str, fields: Json, paths: tuple[str, ...], pools: tuple[str, ...]) -> None:
        self.http.put(f"/credentials/{name}", {"kind": kind, "data": fields, "paths": paths, "pools": pools})

    def rotate(self, forget_old: bool) -> Json:
        raise UsageError("clients of a server have no access to its master key: rotate it with --db on its machine")


class HttpTokens(HttpResource):
    path = "/tokens"

    def create(self, role: Role, name: str, pool: str | None, lifetime: float | None) -> Json:
        return self.http.post("/tokens", {"role": role, "name": name, "pool": pool, "expires_in": lifetime})


class HttpUsers(HttpResource):
    path = "/users"

    def add(self, name: str, password: str, role: Role) -> None:
        self.http.post("/users", {"name": name, "password": password, "role": role})


class HttpSchedules(HttpResource):
    path = "/schedules"

    def put(self, name: str, request: Json, replace: bool) -> Json:
        if replace:
            return self.http.put(f"/schedules/{name}", request)
        return self.http.post("/schedules", request | {"name": name})

    def list(self) -> Items:
        return list(self.http.items("/schedules"))

    def get(self, name: str) -> Json:
        return self.http.get(f"/schedules/{name}")

    def pause(self, name: str) -> Json:
        return self.http.post(f"/schedules/{name}/pause")

    def resume(self, name: str) -> Json:
        return self.http.post(f"/schedules/{name}/resume")

    def trigger(self, name: str) -> Json:
        return self.http.post(f"/schedules/{name}/trigger", key=secrets.token_hex(16))


class HttpHooks(HttpResource):
    path = "/hooks"

    def put(self, name: str, path: str, version: int | None, secret: str | None) -> Json:
        return self.http.put(f"/hooks/{name}", {"path": path, "version": version, "secret": secret})

    def rotate(self, name: str) -> Json:
        return self.http.post(f"/hooks/{name}/rotate")
