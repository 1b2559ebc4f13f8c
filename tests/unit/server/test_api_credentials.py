"""Credentials through the API: values go in and never come out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_server import HELLO, ApiServer, register
from tests.conformance.memory import MemoryStore

from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.server.api import ServerSettings
from noetl.settings import MasterKeySettings

API = "/api/v1/credentials"
SECRET = "t0ken-of-the-shop"


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[ApiServer]:
    store = MemoryStore()
    safe = Safe(store.credentials, MasterKeySource(MasterKeySettings("ab" * 32, str(tmp_path / "key"))))
    server = ApiServer(store, ServerSettings(safe=safe))
    yield server
    server.close()


def test_values_go_in_and_never_come_out(keeper: ApiServer) -> None:
    with keeper.client("admin") as admin:
        body = {"kind": "bearer", "data": {"token": SECRET}, "paths": ["shop/*"], "pools": ["eu"]}
        answer = admin.put(f"{API}/shop/api", json=body)
        assert (answer.status_code, answer.json()["name"], answer.json()["paths"]) == (200, "shop/api", ["shop/*"])
        listed = admin.get(API)
        assert [item["kind"] for item in listed.json()["items"]] == ["bearer"]
        assert SECRET not in answer.text + listed.text + keeper.log.getvalue()
        assert keeper.settings.safe is not None
        assert keeper.settings.safe.open("shop/api").fields == {"token": SECRET}
        assert admin.delete(f"{API}/shop/api").status_code == 204
        assert admin.delete(f"{API}/shop/api").status_code == 404


def test_a_credential_that_cannot_be_says_nothing_of_its_values(keeper: ApiServer) -> None:
    with keeper.client("admin") as admin:
        for name, body in (
            ("x", {"kind": "none", "data": {"token": SECRET}}),
            ("x", {"kind": "bearer", "data": {"tokens": SECRET}}),
            ("x", {"kind": "bearer", "data": SECRET}),
            ("x", {"kind": "bearer", "data": {}}),
            ("!x", {"kind": "bearer", "data": {"token": SECRET}}),
        ):
            answer = admin.put(f"{API}/{name}", json=body)
            assert answer.status_code == 422
            assert SECRET not in answer.text


def test_without_a_master_key_nothing_is_kept(server: ApiServer) -> None:
    with server.client("admin") as admin:
        answer = admin.put(f"{API}/x", json={"kind": "bearer", "data": {"token": SECRET}})
    assert (answer.status_code, SECRET in answer.text) == (503, False)


def test_the_form_of_a_start_names_the_credentials_that_are_missing(keeper: ApiServer) -> None:
    path, entries = "/api/v1/playbooks/tests/hello", "[{name: gone, kind: bearer}, {name: here, kind: basic}]"
    with keeper.client("admin") as admin, keeper.client("viewer") as viewer:
        register(admin, HELLO + f"keychain: {entries}\n")
        admin.put("/api/v1/credentials/here", json={"kind": "bearer", "data": {"token": SECRET}}).raise_for_status()
        gone, other = admin.get(path, params={"with": "form"}).json()["keychain_faults"]
        assert (gone["entry"], gone["missing"], other["entry"], other["missing"]) == ("gone", "gone", "here", None)
        assert gone["reason"].startswith("credential 'gone' not found: create it with")
        admin.put("/api/v1/credentials/gone", json={"kind": "bearer", "data": {"token": SECRET}}).raise_for_status()
        assert admin.get(path, params={"with": "form"}).json()["keychain_faults"] == [other]
        assert viewer.get(path, params={"with": "form"}).json()["keychain_faults"] == []
