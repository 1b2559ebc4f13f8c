"""A `noetl dev` process for the page: a server with a worker, on SQLite, with a user for each role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.acceptance.modes.stage import Client, Process, until
from tests.servers.ports import reserved_port

from noetl.server.page_files import FOLDER, PageFiles, read_page

USERS = {"viewer": "vera", "operator": "otto", "author": "anna", "admin": "ada"}


def database_in(folder: Path) -> Path:
    """Apart from the home, which has the master key: a server refuses to have both in one folder."""
    (data := folder / "data").mkdir(parents=True, exist_ok=True)
    return data / "noetl.db"


def password_of(role: str) -> str:
    return f"{USERS[role]}-likes-playbooks"


@cache
def built_page() -> PageFiles:
    page = read_page(FOLDER)
    assert page is not None, "the page is not built: run `make page`"
    return page


class PageServer:
    """The process; it keeps its port when it is started again."""

    def __init__(self, folder: Path, process_type: type[Process] = Process) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{(port := reserved_port())}"
        self.process = process_type(folder, "dev", "dev", "--port", str(port), "--db", str(database_in(folder)))
        self.token = ""
        self.session_cookie = cache(self.new_session_cookie)
        self._clients: dict[str, Client] = {}

    def start(self) -> None:
        self.process.start()
        line: str = until(self._announcement)
        self.token = line.split()[-1].partition("=")[2]

    def _announcement(self) -> str | None:
        """The line with its address, of the process that runs now."""
        output = self.process.output_text()[self.process.began :]
        assert self.process.process is not None
        assert self.process.process.poll() is None, output
        return next((line for line in output.splitlines() if "export " in line), None)

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        for client in self._clients.values():
            client.http.close()
        if self.process.process is not None and self.process.process.poll() is None:
            assert self.process.stop() == 0, self.process.output_text()

    @property
    def api(self) -> Client:
        """A client that may do everything."""
        return self.client("admin")

    def client(self, role: str) -> Client:
        """A client with a token of the role."""
        if role not in self._clients:
            token = self.token if role == "admin" else self._new_token(role)
            self._clients[role] = Client([self.url], token)
        return self._clients[role]

    def _new_token(self, role: str) -> str:
        return str(self.api.ask("POST", "/tokens", {"role": role, "name": role})["token"])

    def add_users(self) -> None:
        """Create the users that do not exist yet."""
        names = {user["name"] for user in self.api.ask("GET", "/users")["items"]}
        for role, name in USERS.items():
            if name not in names:
                self.api.ask("POST", "/users", {"name": name, "password": password_of(role), "role": role})

    def new_session_cookie(self, role: str) -> Any:
        """The cookie of a new session of the role's user, as a browser context takes it."""
        login = {"user": USERS[role], "password": password_of(role)}
        response = self.api.http.post(f"{self.url}/api/v1/sessions", json=login)
        assert response.status_code == 201, response.text
        name, _, value = response.headers["set-cookie"].partition(";")[0].partition("=")
        url = self.url.replace(
            "http:", "https:"
        )  # its prefix demands it; browsers send it to loopback without TLS, too
        return {"name": name, "value": value, "url": url, "secure": True, "httpOnly": True, "sameSite": "Strict"}


@contextmanager
def page_server(folder: Path, process_type: type[Process] = Process) -> Iterator[PageServer]:
    """A started server with its users."""
    built_page()
    server = PageServer(folder, process_type)
    server.start()
    try:
        server.add_users()
        yield server
    finally:
        server.stop()
