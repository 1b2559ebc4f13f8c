"""/hooks: a delivery that is signed starts its playbook once; anything else learns nothing."""

from __future__ import annotations

import hmac
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import HELLO, ApiServer, begun, register, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_store import OpenServer, address_of, servers_at
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.patience import until as patiently
from tests.servers.postgres import postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.errors import AuthError
from noetl.keychain import safe, sealed
from noetl.store.triggers import Hook
from noetl.triggers import hooks

SECRET = "correct-horse-battery"
ECHO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: echo, path: tests/echo}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload }}"}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address_of(request, request.param, tmp_path)


@pytest.fixture
def open_server(address: str) -> Iterator[OpenServer]:
    yield from servers_at(address)


@pytest.fixture
def server(open_server: OpenServer) -> ApiServer:
    one = open_server()
    with one.client() as client:
        register(client, HELLO)
        register(client, ECHO)
        made = client.put("/api/v1/hooks/deploy", json={"path": "tests/echo", "secret": SECRET})
        assert (made.status_code, made.json()["secret"]) == (201, None)
    return one


@pytest.fixture
def client(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client() as one:
        yield one


def headers(body: bytes, secret: str = SECRET, at: float | None = None, delivery: str = "") -> dict[str, str]:
    """What a sender puts beside the body."""
    timestamp = str(int(time.time() if at is None else at))
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, sha256).hexdigest()
    result = {
        "Content-Type": "application/json",
        "X-Noetl-Timestamp": timestamp,
        "X-Noetl-Signature": f"sha256={signed}",
    }
    return result | ({"X-Noetl-Delivery": delivery} if delivery else {})


def deliver(server: ApiServer, body: bytes, given: dict[str, str], name: str = "deploy") -> httpx2.Response:
    with server.client(None) as nobody:
        return nobody.post(f"/api/v1/hooks/{name}", content=body, headers=given)


def executions(client: httpx2.Client) -> list[dict[str, Any]]:
    return list(client.get("/api/v1/executions").json()["items"])


# -- who is let in --------------------------------------------------------------------------------------------------


def test_a_signed_delivery_starts_the_playbook_with_the_body(server: ApiServer, client: httpx2.Client) -> None:
    body = b'{"ref": "main", "text": "{{ 1 + 1 }}", "n": 1.5}'
    answer = deliver(server, body, headers(body))
    by = client.get(f"/api/v1/executions/{answer.json()['execution_id']}").json()["actor"]
    assert by == {"kind": "hook", "name": "deploy"}
    assert answer.status_code == 202, answer.text
    assert answer.json()["duplicate"] is False
    ended = until(client, answer.json()["execution_id"], "succeeded")
    assert ended["result"] == {"ref": "main", "text": "{{ 1 + 1 }}", "n": 1.5}


def test_a_delivery_that_its_playbook_refuses_starts_nothing(server: ApiServer, client: httpx2.Client) -> None:
    register(client, HELLO.replace("tests/hello", "tests/needs").replace("{{ workload.name }}", "{{ ref }}"))
    secret = client.put("/api/v1/hooks/needs", json={"path": "tests/needs"}).json()["secret"]
    refused = deliver(server, b'{"name": "x"}', headers(b'{"name": "x"}', secret=secret), name="needs")
    assert (refused.status_code, refused.json()["problems"][0]["line"]) == (422, 7)
    body = b'{"ref": "main", "nmae": 1}'
    answer = deliver(server, body, headers(body, secret=secret), name="needs")
    assert answer.json()["warnings"] == ["workload has no 'nmae': did you mean 'name'?"]


@pytest.mark.parametrize(
    ("body", "payload"),
    [(b"[1, 2]", {"body": [1, 2]}), (b'"x"', {"body": "x"}), (b"null", {"body": None}), (b"", {}), (b" \n", {})],
)
def test_a_body_that_is_no_object_is_the_field_body(
    server: ApiServer, client: httpx2.Client, body: bytes, payload: dict[str, Any]
) -> None:
    answer = deliver(server, body, headers(body))
    assert until(client, answer.json()["execution_id"], "succeeded")["result"] == payload


def refusals(server: ApiServer) -> dict[str, httpx2.Response]:
    body = b'{"a": 1}'
    good, now = headers(body), time.time()
    return {
        "unknown hook": deliver(server, body, good, "nothing"),
        "another secret": deliver(server, body, headers(body, "another-secret-value")),
        "an empty secret": deliver(server, body, headers(body, "")),
        "another body": deliver(server, b'{"a": 2}', good),
        "no signature": deliver(server, body, good | {"X-Noetl-Signature": ""}),
        "no prefix": deliver(server, body, good | {"X-Noetl-Signature": good["X-Noetl-Signature"][7:]}),
        "half": deliver(server, body, good | {"X-Noetl-Signature": good["X-Noetl-Signature"][:40]}),
        "sha1": deliver(server, body, good | {"X-Noetl-Signature": "sha1=" + "0" * 40}),
        "no time": deliver(server, body, {key: value for key, value in good.items() if "Time" not in key}),
        "another time": deliver(server, body, good | {"X-Noetl-Timestamp": str(int(now) - 1)}),
        "a signed time that is none": deliver(server, body, signed_time(body, "soon")),
        "a signed time with a sign": deliver(server, body, signed_time(body, f"+{int(now)}")),
        "a signed time with a dot": deliver(server, body, signed_time(body, f"{now:.3f}")),
        "old": deliver(server, body, headers(body, at=now - 400)),
        "of the future": deliver(server, body, headers(body, at=now + 400)),
    }


def signed_time(body: bytes, timestamp: str) -> dict[str, str]:
    signed = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + body, sha256).hexdigest()
    return headers(body) | {"X-Noetl-Timestamp": timestamp, "X-Noetl-Signature": f"sha256={signed}"}


def test_everything_else_gets_the_same_answer(server: ApiServer, client: httpx2.Client) -> None:
    result = refusals(server)
    assert {name: answer.status_code for name, answer in result.items()} == dict.fromkeys(result, 401)
    said = {json.dumps(answer.json() | {"request_id": ""}) for answer in result.values()}
    assert len(said) == 1
    assert executions(client) == []
    text = client.get("/metrics").text
    assert f"noetl_deliveries_refused_total {len(result)}" in text


def test_a_token_does_not_help_and_a_wrong_one_does_not_hurt(server: ApiServer) -> None:
    body = b"{}"
    bearer = {"Authorization": f"Bearer {server.tokens['admin']}"}
    assert deliver(server, body, bearer | {"Content-Type": "application/json"}).status_code == 401
    assert deliver(server, body, headers(body) | {"Authorization": "Bearer nonsense"}).status_code == 202


def test_the_window_is_five_minutes_to_both_sides(server: ApiServer) -> None:
    """The edge itself in `is_plausible`, whose time stands still."""
    good = f"sha256={hooks.signature_of(SECRET, '1000', b'x').hexdigest()}"
    for now, fits in ((700, True), (699.9, False), (1300, True), (1300.1, False)):
        assert hooks.is_plausible("1000", good, now) is fits
    assert hooks.is_plausible("1000", f" SHA256={good[7:].upper()} ", 1000)
    assert hooks.fits(hooks.signature_of(SECRET, "1000", b"x"), f" SHA256={good[7:].upper()} ")


def half_sent(server: ApiServer, given: dict[str, str], name: str, body: bytes) -> socket.socket:
    """A delivery whose body has not come to its end."""
    lines = [f"POST /api/v1/hooks/{name} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, *(f"{key}: {value}" for key, value in given.items()), "", ""])
    one = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    one.sendall(head.encode() + body[:-1])
    return one


@pytest.mark.parametrize(
    "wrong",
    [{"X-Noetl-Signature": "sha256=x"}, {"X-Noetl-Timestamp": "1"}, {"X-Noetl-Signature": ""}],
    ids=["signature", "time", "none"],
)
def test_headers_that_cannot_be_right_are_refused_before_the_body_is_read(
    server: ApiServer, wrong: dict[str, str]
) -> None:
    body = b'"' + b"x" * 100_000 + b'"'
    for name in ("deploy", "nothing"):
        with closing(half_sent(server, headers(body) | wrong, name, body)) as one:
            assert b" 401 " in one.recv(1000)
    assert server.app.anonymous_bodies.held == 0


def test_a_body_for_no_hook_is_not_kept_and_nobody_can_tell(server: ApiServer) -> None:
    """The answer waits for the end of the body in both cases, but only that of a hook takes memory."""
    body, memory = b'"' + b"x" * 100_000 + b'"', server.app.anonymous_bodies
    for name, held in (("deploy", len(body) - 1), ("nothing", 0)):
        with closing(half_sent(server, headers(body, "another-secret-value"), name, body)) as one:
            patiently(lambda held=held: memory.held == held)
            one.settimeout(0.5)
            with pytest.raises(TimeoutError):
                one.recv(1000)
            assert memory.held == held
            one.settimeout(PATIENCE_SECONDS)
            one.sendall(body[-1:])
            assert b" 401 " in one.recv(1000)
        patiently(lambda: memory.held == 0)


def test_a_hook_that_does_not_exist_costs_as_much_as_one_that_does(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    counted = {"get": server.settings.safe.store.get, "read": server.settings.safe.keys.read}  # type: ignore[union-attr]
    original = sealed.unseal

    def unseal(*arguments: Any) -> Any:
        calls.append("unseal")
        return original(*arguments)

    for module in (safe, hooks):
        monkeypatch.setattr(module, "unseal", unseal)
    for name, function in counted.items():

        def counting(*arguments: Any, name: str = name, function: Any = function) -> Any:
            calls.append(name)
            return function(*arguments)

        owner = server.settings.safe.store if name == "get" else server.settings.safe.keys  # type: ignore[union-attr]
        monkeypatch.setattr(owner, name, counting)
    deliver(server, b"{}", headers(b"{}", "another-secret-value"), "nothing")  # the decoy is sealed once
    result = []
    for name in ("deploy", "nothing"):
        calls.clear()
        assert deliver(server, b"{}", headers(b"{}", "another-secret-value"), name).status_code == 401
        result.append(calls.copy())
    assert result[0] == result[1]
    assert "unseal" in result[0]


def test_content_of_another_type_or_size_is_refused_before_anything_is_compared(server: ApiServer) -> None:
    body = b"{}"
    assert deliver(server, body, headers(body) | {"Content-Type": "text/plain"}).status_code == 415
    large = b'"' + b"x" * (1 << 20) + b'"'
    assert deliver(server, large, headers(large)).status_code == 413


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 5000, b"{}{}", b'{"a": NaN}'])
def test_what_is_no_json_is_refused_after_it_was_signed(server: ApiServer, client: httpx2.Client, body: bytes) -> None:
    assert deliver(server, body, headers(body)).status_code == 400
    assert deliver(server, body, headers(body, "another-secret-value")).status_code == 401
    assert executions(client) == []


# -- once -----------------------------------------------------------------------------------------------------------


def test_a_delivery_counts_once_at_whichever_server(
    open_server: OpenServer, server: ApiServer, client: httpx2.Client
) -> None:
    other, body = open_server(), b'{"a": 1}'
    given = headers(body)
    answers = [deliver(one, body, given).json() for one in (server, other, other, server)]
    assert len({answer["execution_id"] for answer in answers}) == 1
    assert [answer["duplicate"] for answer in answers] == [False, True, True, True]
    assert len(executions(client)) == 1


def test_deliveries_that_come_at_once_start_one_execution(
    open_server: OpenServer, server: ApiServer, client: httpx2.Client
) -> None:
    servers, body = [server, open_server()], b'{"a": 1}'
    given = headers(body, delivery="d-1")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: deliver(servers[number % 2], body, given), range(16)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["execution_id"] for answer in answers}) == 1
    assert sum(not answer.json()["duplicate"] for answer in answers) == 1
    assert len(executions(client)) == 1


def test_a_sender_that_signs_anew_names_the_delivery(server: ApiServer, client: httpx2.Client) -> None:
    body, now = b'{"a": 1}', time.time()
    first = deliver(server, body, headers(body, at=now - 60, delivery="d-1")).json()
    again = deliver(server, body, headers(body, at=now, delivery="d-1")).json()
    assert (again["execution_id"], again["duplicate"]) == (first["execution_id"], True)
    other = deliver(server, body, headers(body, at=now - 30, delivery="d-2")).json()
    assert other["execution_id"] != first["execution_id"]
    unnamed = deliver(server, body, headers(body, at=now - 20)).json()
    assert unnamed["duplicate"] is False
    assert len(executions(client)) == 3


def test_another_id_on_a_request_that_was_seen_makes_no_new_delivery(server: ApiServer, client: httpx2.Client) -> None:
    body = b'{"a": 1}'
    given = headers(body, delivery="d-1")
    first = deliver(server, body, given).json()
    louder = given["X-Noetl-Signature"].upper()
    for change in ({"X-Noetl-Delivery": "d-2"}, {"X-Noetl-Delivery": ""}, {"X-Noetl-Signature": louder}):
        replayed = deliver(server, body, given | change).json()
        assert (replayed["execution_id"], replayed["duplicate"]) == (first["execution_id"], True)
    assert len(executions(client)) == 1


def test_the_id_of_another_body_takes_nothing_away(server: ApiServer, client: httpx2.Client) -> None:
    first = deliver(server, b'{"a": 1}', headers(b'{"a": 1}', delivery="d-1")).json()
    other = deliver(server, b'{"a": 2}', headers(b'{"a": 2}', delivery="d-1")).json()
    assert (other["duplicate"], first["execution_id"] == other["execution_id"]) == (False, False)
    assert deliver(server, b"{}", headers(b"{}", delivery="x" * 201)).status_code == 422
    assert len(executions(client)) == 2


def test_a_delivery_that_could_not_start_can_be_sent_again(server: ApiServer, client: httpx2.Client) -> None:
    body, now = b"{}", time.time()
    server.store.triggers.put_hook(Hook("deploy", "tests/gone", None, now, now))
    given = headers(body)
    assert deliver(server, body, given).status_code == 404
    server.store.triggers.put_hook(Hook("deploy", "tests/echo", None, now, now))
    answer = deliver(server, body, given)
    assert answer.status_code == 202
    until(client, answer.json()["execution_id"], "succeeded")


@pytest.mark.skipif(not (which("openssl") and which("curl")), reason="the page uses openssl and curl")
def test_the_shell_script_of_the_page_is_understood(server: ApiServer, client: httpx2.Client, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "webhooks.md").read_text("utf-8")
    script = page.partition("```sh title=send.sh\n")[2].partition("```")[0]
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    environment = {"PATH": os.environ["PATH"], "NOETL_SERVER": server.url, "NO_PROXY": "*"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=True
    )
    started = json.loads(done.stdout)
    assert until(client, started["execution_id"], "succeeded")["result"] == {"ref": "main"}


# -- looking after them ---------------------------------------------------------------------------------------------


def test_a_secret_that_is_made_is_said_once(server: ApiServer, client: httpx2.Client) -> None:
    made = client.put("/api/v1/hooks/new", json={"path": "tests/hello", "version": 1})
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert len(secret) >= 43
    body = b'{"name": "hook"}'
    started = deliver(server, body, headers(body, secret), "new").json()["execution_id"]
    assert until(client, started, "succeeded")["result"] == "hello hook!"
    again = client.put("/api/v1/hooks/new", json={"path": "tests/echo"})
    assert (again.status_code, again.json()["secret"], again.json()["path"]) == (200, None, "tests/echo")
    assert deliver(server, body, headers(body, secret, time.time() - 5), "new").status_code == 202
    listed = client.get("/api/v1/hooks")
    assert [item["name"] for item in listed.json()["items"]] == ["deploy", "new"]
    assert secret not in listed.text + client.get("/api/v1/credentials").text + server.log.getvalue()
    stored = server.store.credentials.get("hook/new")
    assert stored is not None
    assert secret.encode() not in stored.sealed


def test_a_rotated_secret_takes_the_place_of_the_old_one(server: ApiServer, client: httpx2.Client) -> None:
    body = b"{}"
    rotated = client.post("/api/v1/hooks/deploy/rotate")
    assert rotated.status_code == 200
    assert deliver(server, body, headers(body)).status_code == 401
    assert deliver(server, body, headers(body, rotated.json()["secret"])).status_code == 202
    assert client.post("/api/v1/hooks/none/rotate").status_code == 404


def test_a_deleted_hook_takes_its_secret_with_it(server: ApiServer, client: httpx2.Client) -> None:
    body = b"{}"
    assert client.delete("/api/v1/hooks/deploy").status_code == 204
    assert client.delete("/api/v1/hooks/deploy").status_code == 404
    assert deliver(server, body, headers(body)).status_code == 401
    assert client.get("/api/v1/credentials").json()["items"] == []


def test_a_hook_without_its_secret_takes_nothing_until_it_has_another(server: ApiServer, client: httpx2.Client) -> None:
    body = b"{}"
    assert client.delete("/api/v1/credentials/hook/deploy").status_code == 204
    assert deliver(server, body, headers(body)).status_code == 401
    made = client.put("/api/v1/hooks/deploy", json={"path": "tests/echo"}).json()["secret"]
    assert deliver(server, body, headers(body, made)).status_code == 202


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"path": "tests/none"}, 404),
        ({"path": "tests/echo", "version": 7}, 404),
        ({"path": "tests/echo", "version": 10**30}, 422),
        ({"path": "tests/echo", "secret": "short"}, 422),
        ({"path": "tests/echo", "secret": ""}, 422),
        ({}, 422),
        ({"path": "tests/echo", "more": 1}, 422),
    ],
)
def test_what_cannot_be_a_hook_is_refused(client: httpx2.Client, request_: dict[str, Any], status: int) -> None:
    assert client.put("/api/v1/hooks/bad", json=request_).status_code == status
    assert [item["name"] for item in client.get("/api/v1/hooks").json()["items"]] == ["deploy"]


def test_another_credential_of_that_name_stays_what_it_is(client: httpx2.Client) -> None:
    response = client.put("/api/v1/credentials/hook/mine", json={"kind": "bearer", "data": {"token": "s3cret-token"}})
    assert response.status_code == 200
    assert client.put("/api/v1/hooks/mine", json={"path": "tests/echo"}).status_code == 409
    assert client.get("/api/v1/credentials").json()["items"][1]["kind"] == "bearer"


def test_no_playbook_can_use_the_secret_of_a_hook(server: ApiServer, client: httpx2.Client) -> None:
    text = ECHO.replace(
        "workflow:", "keychain: [{name: k, kind: secret_manager, credential: hook/deploy}]\nworkflow:"
    ).replace("tests/echo", "tests/thief")
    register(client, text)
    answer = client.post("/api/v1/executions", json={"path": "tests/thief"})
    assert answer.status_code == 422
    assert "playbooks cannot use it" in answer.json()["detail"]


def test_not_even_a_playbook_with_the_path_of_no_playbook(server: ApiServer, client: httpx2.Client) -> None:
    """`//hooks` is the pattern of who may use the secret; a text that claims to be there is refused."""
    entry = "keychain: [{name: k, kind: secret_manager, credential: hook/deploy}]\nworkflow:"
    text = ECHO.replace("workflow:", entry).replace("tests/echo", "'//hooks'")
    answer = client.post("/api/v1/executions", json={"playbook": text})
    assert answer.status_code == 422
    assert "metadata.path" in answer.json()["detail"]
    forked = begun(client, {"path": "tests/echo"})
    edited = client.post(f"/api/v1/executions/{forked}/retry", json={"playbook": text})
    assert edited.status_code == 422
    assert "metadata.path" in edited.json()["detail"]


def test_no_lease_opens_the_secret_of_a_hook(server: ApiServer) -> None:
    """Wherever credentials are opened for tasks, this kind is refused, whatever path or pool asks."""
    assert server.settings.safe is not None
    with pytest.raises(AuthError, match="webhook"):
        server.settings.safe.open(hooks.credential_of("deploy"))


def test_two_hooks_cannot_have_one_secret(server: ApiServer, client: httpx2.Client) -> None:
    """The name is not signed: a delivery to the one could be sent to the other."""
    again = client.put("/api/v1/hooks/other", json={"path": "tests/hello", "secret": SECRET})
    assert again.status_code == 422
    assert SECRET not in again.text
    assert client.put("/api/v1/hooks/deploy", json={"path": "tests/echo", "secret": SECRET}).status_code == 200
    assert client.put("/api/v1/hooks/other", json={"path": "tests/hello", "secret": SECRET + "2"}).status_code == 201
    assert [item["name"] for item in client.get("/api/v1/hooks").json()["items"]] == ["deploy", "other"]


def test_a_server_without_a_master_key_reports_it() -> None:
    server = ApiServer()
    try:
        with server.client() as client:
            register(client, HELLO)
            assert client.put("/api/v1/hooks/a", json={"path": "tests/hello"}).status_code == 503
        assert deliver(server, b"{}", headers(b"{}"), "a").status_code == 401
    finally:
        server.close()


# -- whatever comes -------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=90).map(str.strip)


@pytest.fixture(scope="module")
def plain_server() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    body=st.binary(max_size=40), timestamp=TEXT, signature=TEXT, delivery=TEXT, name=st.sampled_from(["deploy", "x"])
)
def test_whatever_comes_unsigned_is_refused_and_nothing_breaks(
    plain_server: ApiServer, body: bytes, timestamp: str, signature: str, delivery: str, name: str
) -> None:
    given = {
        "Content-Type": "application/json",
        "X-Noetl-Timestamp": timestamp,
        "X-Noetl-Signature": signature,
        "X-Noetl-Delivery": delivery,
    }
    assert deliver(plain_server, body, given, name).status_code == 401


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    body=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=30)
)
def test_whatever_is_signed_is_json_or_refused(body: bytes) -> None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        assert isinstance(hooks.payload_of(body), dict)
