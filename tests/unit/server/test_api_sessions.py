"""Tokens, users and sessions: made, used, run out, revoked."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_server import HELLO, ApiServer, OffsetClock

from noetl.access import hash_of
from noetl.server.auth import COOKIE, MAX_SUBJECTS, Throttle
from noetl.server.problems import Refused
from noetl.store.access import Session

API = "/api/v1"
PASSWORD = "correct horse battery"
DAY = 86_400.0


@pytest.fixture
def fresh() -> Iterator[ApiServer]:
    """A server of the test's own: its clock is moved."""
    server = ApiServer()
    with server.client("admin") as admin:
        user = {"name": "ada", "password": PASSWORD, "role": "operator"}
        assert admin.post(f"{API}/users", json=user).status_code == 201
    yield server
    server.close()


def signed_in(server: ApiServer, user: str = "ada", password: str = PASSWORD) -> tuple[httpx2.Client, str]:
    """A client with the cookie, as a browser has it, and its CSRF token."""
    with server.client(None) as client:
        answer = client.post(f"{API}/sessions", json={"user": user, "password": password})
    assert answer.status_code == 201, answer.text
    browser = server.client(None)
    browser.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
    return browser, answer.json()["csrf_token"]


# -- sessions -------------------------------------------------------------------------------------------------------


def test_the_cookie_is_for_this_host_and_no_script(fresh: ApiServer) -> None:
    with fresh.client(None) as client:
        answer = client.post(f"{API}/sessions", json={"user": "ada", "password": PASSWORD})
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name.startswith("__Host-")
    for part in ("; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict"):
        assert part in rest
    assert "Domain" not in rest
    secret = rest.partition(";")[0]
    assert secret not in answer.text
    assert all(secret.encode() not in (session.hash, session.id.encode()) for session in fresh.store.access.sessions())


def test_who_is_signed_in_may_what_the_role_may(fresh: ApiServer) -> None:
    client, csrf = signed_in(fresh)
    with client:
        assert client.get(f"{API}/executions").status_code == 200
        assert client.get(f"{API}/tokens").status_code == 403
        who = client.get(f"{API}/sessions").json()
        assert (who["name"], who["role"], who["csrf_token"]) == ("ada", "operator", csrf)
        assert [item["current"] for item in who["items"]] == [True]


@pytest.mark.parametrize("sent", [None, "", "x", "0" * 64, "ÿ"])
def test_a_change_needs_the_csrf_token(fresh: ApiServer, sent: str | None) -> None:
    client, csrf = signed_in(fresh)
    with client:
        headers = {} if sent is None else {"X-CSRF-Token": sent.encode("latin-1")}
        refused = client.post(f"{API}/executions", json={"path": "none"}, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:noetl:problem:csrf")
        assert (
            client.post(f"{API}/executions", json={"path": "none"}, headers={"X-CSRF-Token": csrf}).status_code == 404
        )


def test_a_session_of_another_has_another_csrf_token(fresh: ApiServer) -> None:
    first, csrf = signed_in(fresh)
    second, _ = signed_in(fresh)
    with first, second:
        assert second.delete(f"{API}/sessions", headers={"X-CSRF-Token": csrf}).status_code == 403


def test_signing_out_ends_it(fresh: ApiServer) -> None:
    client, csrf = signed_in(fresh)
    with client:
        answer = client.delete(f"{API}/sessions", headers={"X-CSRF-Token": csrf})
        assert (answer.status_code, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
        assert client.get(f"{API}/executions").status_code == 401
    assert fresh.store.access.sessions() == []


def test_a_session_slides_for_a_day_and_ends_after_a_week(fresh: ApiServer) -> None:
    client, _ = signed_in(fresh)
    with client:
        for _ in range(8):
            fresh.clock.offset += DAY * 0.8
            assert client.get(f"{API}/executions").status_code == 200
        fresh.clock.offset += DAY * 0.8
        assert client.get(f"{API}/executions").status_code == 401


def test_a_session_that_nobody_uses_ends_after_a_day(fresh: ApiServer) -> None:
    client, _ = signed_in(fresh)
    with client:
        fresh.clock.offset += DAY + 1
        assert client.get(f"{API}/executions").status_code == 401


def test_own_sessions_can_be_ended_and_those_of_others_not(fresh: ApiServer) -> None:
    with fresh.client("admin") as admin:
        admin.post(f"{API}/users", json={"name": "bob", "password": PASSWORD})
        first, csrf = signed_in(fresh)
        second, _ = signed_in(fresh)
        bob, bobs = signed_in(fresh, "bob")
        with first, second, bob:
            ids = {item["user"]: item["id"] for item in admin.get(f"{API}/sessions?user=*").json()["items"]}
            assert bob.delete(f"{API}/sessions/{ids['ada']}", headers={"X-CSRF-Token": bobs}).status_code == 404
            assert bob.get(f"{API}/sessions?user=ada").status_code == 403
            other = next(item for item in first.get(f"{API}/sessions").json()["items"] if not item["current"])
            assert first.delete(f"{API}/sessions/{other['id']}", headers={"X-CSRF-Token": csrf}).status_code == 204
            assert second.get(f"{API}/executions").status_code == 401
            assert admin.delete(f"{API}/sessions/{ids['bob']}").status_code == 204
            assert bob.get(f"{API}/executions").status_code == 401
            assert admin.delete(f"{API}/sessions/{ids['bob']}").status_code == 404


def test_a_token_that_is_called_like_somebody_does_not_see_those_sessions(fresh: ApiServer) -> None:
    fresh.add_token("viewer", "ada")
    fresh.add_token("viewer", "*")
    person, _ = signed_in(fresh)
    with person, fresh.client("ada") as ada, fresh.client("*") as all_of_them:
        assert ada.get(f"{API}/sessions?user=ada").status_code == 403
        assert all_of_them.get(f"{API}/sessions?user=*").status_code == 403
        assert ada.get(f"{API}/sessions").json()["items"] == []


# -- sessions of a token --------------------------------------------------------------------------------------------


def signed_in_with(server: ApiServer, token: str) -> tuple[httpx2.Client, dict[str, str]]:
    """A client with the cookie of a session that was begun with a token, and the answer."""
    with server.client(None) as client:
        answer = client.post(f"{API}/sessions", json={"token": token})
    assert answer.status_code == 201, answer.text
    assert token not in answer.text + answer.headers["set-cookie"]
    browser = server.client(None)
    browser.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
    return browser, answer.json()


@pytest.mark.parametrize("role", ["viewer", "operator", "author", "admin"])
def test_a_session_of_a_token_has_its_role_and_needs_the_csrf_token(fresh: ApiServer, role: str) -> None:
    client, answer = signed_in_with(fresh, fresh.tokens[role])
    assert (answer["user"], answer["role"]) == (role, role)
    with client:
        who = client.get(f"{API}/sessions").json()
        assert (who["name"], who["role"], who["csrf_token"]) == (role, role, answer["csrf_token"])
        assert [(item["user"], item["current"]) for item in who["items"]] == [(f"token:{fresh.ids[role]}", True)]
        assert client.get(f"{API}/tokens").status_code == (200 if role == "admin" else 403)
        start = {"json": {"path": "none"}}
        assert client.post(f"{API}/executions", **start).json()["type"] == "urn:noetl:problem:csrf"
        csrf = {"X-CSRF-Token": answer["csrf_token"]}
        assert client.post(f"{API}/executions", **start, headers=csrf).status_code == (403 if role == "viewer" else 404)
        assert client.delete(f"{API}/sessions", headers=csrf).status_code == 204
        assert client.get(f"{API}/executions").status_code == 401
    with fresh.client(role) as bearer:
        assert bearer.get(f"{API}/executions").status_code == 200, "signing out revokes no token"


def test_what_a_session_of_a_token_does_is_recorded_as_the_token(fresh: ApiServer) -> None:
    client, answer = signed_in_with(fresh, fresh.tokens["author"])
    csrf = {"X-CSRF-Token": answer["csrf_token"]}
    with client:
        execution = client.post(f"{API}/executions", json={"playbook": HELLO}, headers=csrf).json()["execution_id"]
        actor = client.get(f"{API}/executions/{execution}").json()["actor"]
    assert actor == {"kind": "token", "name": "author"}


def test_a_session_never_outlives_its_token(fresh: ApiServer) -> None:
    token = fresh.add_token("viewer", "short", expires=fresh.clock.now() + 3600)
    with fresh.client(None) as anybody:
        answer = anybody.post(f"{API}/sessions", json={"token": token})
    seconds = int(answer.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0])
    assert 0 < seconds <= 3600
    client, _ = signed_in_with(fresh, token)
    with client:
        fresh.clock.offset += 3590
        assert client.get(f"{API}/executions").status_code == 200
        fresh.clock.offset += 20
        assert client.get(f"{API}/executions").status_code == 401
        assert client.post(f"{API}/sessions", json={"token": token}).status_code == 401


def test_a_session_of_a_token_ends_after_a_week_at_the_latest(fresh: ApiServer) -> None:
    client, _ = signed_in_with(fresh, fresh.tokens["viewer"])
    with client:
        for _ in range(8):
            fresh.clock.offset += DAY * 0.8
            assert client.get(f"{API}/executions").status_code == 200
        fresh.clock.offset += DAY * 0.8
        assert client.get(f"{API}/executions").status_code == 401


def test_revoking_a_token_ends_its_sessions_and_no_others(fresh: ApiServer) -> None:
    first, _ = signed_in_with(fresh, fresh.tokens["viewer"])
    second, _ = signed_in_with(fresh, fresh.tokens["operator"])
    with first, second, fresh.client("admin") as admin:
        assert first.get(f"{API}/executions").status_code == 200
        assert admin.delete(f"{API}/tokens/{fresh.ids['viewer']}").status_code == 204
        assert first.get(f"{API}/executions").status_code == 401
        assert second.get(f"{API}/executions").status_code == 200
        assert [session.user for session in fresh.store.access.sessions()] == [f"token:{fresh.ids['operator']}"]


def test_revoking_a_token_in_the_database_ends_its_sessions(fresh: ApiServer) -> None:
    """As `noetl token revoke` does without the server."""
    client, _ = signed_in_with(fresh, fresh.tokens["viewer"])
    with client:
        fresh.store.access.revoke_token(fresh.ids["viewer"], fresh.clock.now())
        assert client.get(f"{API}/executions").status_code == 401
    assert fresh.store.access.sessions() == []


def test_a_token_of_a_worker_cannot_sign_in(fresh: ApiServer) -> None:
    with fresh.client(None) as anybody:
        answer = anybody.post(f"{API}/sessions", json={"token": fresh.tokens["worker"]})
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert "role worker" in answer.json()["detail"]


@pytest.mark.parametrize("token", ["", "x", "noetl_", "noetl_" + "x" * 43, "noetl_\0"])
def test_a_wrong_token_cannot_sign_in(fresh: ApiServer, token: str) -> None:
    with fresh.client(None) as anybody:
        assert anybody.post(f"{API}/sessions", json={"token": token}).status_code == 401
        metrics = anybody.get("/metrics").text
    assert "noetl_logins_failed_total 1" in metrics


@pytest.mark.parametrize("more", [{}, {"user": "ada"}, {"password": "x"}, {"token": "x", "user": "ada"}])
def test_a_sign_in_names_a_user_or_a_token(fresh: ApiServer, more: dict[str, str]) -> None:
    with fresh.client(None) as anybody:
        assert anybody.post(f"{API}/sessions", json=more).status_code == 422


def test_the_secret_of_a_session_is_no_token(fresh: ApiServer) -> None:
    client, _ = signed_in_with(fresh, fresh.tokens["viewer"])
    secret = str(client.headers["Cookie"]).partition("=")[2]
    with client, fresh.client(None) as anybody:
        assert anybody.post(f"{API}/sessions", json={"token": secret}).status_code == 401


# -- signing in -----------------------------------------------------------------------------------------------------


def test_wrong_names_and_wrong_passwords_are_answered_alike(fresh: ApiServer) -> None:
    with fresh.client(None) as client:
        for user, password in (("ada", "wrong password"), ("nobody", PASSWORD), ("", ""), ("ada\0", PASSWORD)):
            answer = client.post(f"{API}/sessions", json={"user": user, "password": password})
            assert (answer.status_code, answer.json()["detail"]) == (401, "wrong user name or password")


def test_guessing_is_slowed_down(fresh: ApiServer) -> None:
    with fresh.client(None) as client:
        codes = []
        for _ in range(7):
            answer = client.post(f"{API}/sessions", json={"user": "ada", "password": "wrong"})
            codes.append(answer.status_code)
        assert codes == [401] * 5 + [429] * 2
        assert int(answer.headers["retry-after"]) >= 1
        right = {"user": "ada", "password": PASSWORD}
        assert client.post(f"{API}/sessions", json=right).status_code == 429
        fresh.clock.offset += 3600.0
        assert client.post(f"{API}/sessions", json=right).status_code == 201


def test_whoever_guesses_for_one_user_holds_up_nobody_else(fresh: ApiServer) -> None:
    """Behind a proxy everybody has one address."""
    with fresh.client(None) as client:
        for number in range(60):
            client.post(f"{API}/sessions", json={"user": f"nobody{number % 12}", "password": "wrong"})
        assert client.post(f"{API}/sessions", json={"user": "ada", "password": PASSWORD}).status_code == 201


def test_whoever_has_signed_in_before_is_not_held_up_by_guesses_from_elsewhere() -> None:
    clock = OffsetClock()
    throttle = Throttle(clock)
    throttle.failed("ada", "home")
    throttle.succeeded("ada", "home")
    for number in range(1_000):
        throttle.failed("ada", f"elsewhere{number}")
    throttle.check("ada", "home")
    with pytest.raises(Refused):
        throttle.check("ada", "another place")
    throttle.check("bob", "another place")
    clock.offset += 61.0
    throttle.check("ada", "another place")


def test_the_throttle_does_not_grow_for_ever() -> None:
    throttle = Throttle(OffsetClock())
    for number in range(30_000):
        throttle.failed(f"user{number}", "x")
        throttle.succeeded(f"user{number}", "x")
    assert len(throttle._failures) <= MAX_SUBJECTS
    assert len(throttle._signed_in) <= MAX_SUBJECTS


def test_an_address_that_is_made_up_does_not_count(fresh: ApiServer) -> None:
    with fresh.client(None) as client:
        codes = [
            client.post(
                f"{API}/sessions",
                json={"user": "ada", "password": "wrong"},
                headers={"X-Forwarded-For": f"192.0.2.{number}", "X-Forwarded-Proto": "https"},
            ).status_code
            for number in range(7)
        ]
    assert codes == [401] * 5 + [429] * 2


def test_the_address_of_a_trusted_proxy_does() -> None:
    server = ApiServer(proxies=("127.0.0.0/8",))
    try:
        with server.client(None) as client:
            codes = [
                client.post(
                    f"{API}/sessions",
                    json={"user": "ada", "password": "wrong"},
                    headers={"X-Forwarded-For": f"192.0.2.{number}"},
                ).status_code
                for number in range(7)
            ]
        assert codes == [401] * 7
    finally:
        server.close()


def test_a_token_is_no_session_and_a_session_is_no_token(fresh: ApiServer) -> None:
    """Also while the server remembers it."""
    token = fresh.tokens["admin"]
    with fresh.client(None) as client:
        assert client.get(f"{API}/tokens", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert client.get(f"{API}/tokens", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401
    secret = "noetl_" + "s" * 43
    now = fresh.clock.now()
    session = Session("s1", hash_of(secret), "ada", now, now, now + 1000, "", "")
    fresh.store.access.add_session(session)
    with fresh.client(None) as client:
        assert client.get(f"{API}/executions", headers={"Cookie": f"{COOKIE}={secret}"}).status_code == 200
        assert client.get(f"{API}/executions", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


# -- users ----------------------------------------------------------------------------------------------------------


def test_a_password_is_kept_as_argon2id(fresh: ApiServer) -> None:
    user = fresh.store.access.user("ada")
    assert user is not None
    assert user.password.startswith("$argon2id$")


@pytest.mark.parametrize(
    "user",
    [
        {"name": "eve", "password": "short"},
        {"name": "eve", "password": "x" * 1_001},
        {"name": "e/ve", "password": PASSWORD},
        {"name": "", "password": PASSWORD},
        {"name": "eve", "password": PASSWORD, "role": "worker"},
        {"name": "eve", "password": PASSWORD, "role": "root"},
    ],
)
def test_a_user_who_cannot_be(fresh: ApiServer, user: dict[str, str]) -> None:
    with fresh.client("admin") as admin:
        assert admin.post(f"{API}/users", json=user).status_code == 422
        assert [item["name"] for item in admin.get(f"{API}/users").json()["items"]] == ["ada"]


def test_a_new_password_ends_the_sessions(fresh: ApiServer) -> None:
    client, _ = signed_in(fresh)
    with client, fresh.client("admin") as admin:
        assert admin.post(f"{API}/users", json={"name": "ada", "password": PASSWORD}).status_code == 409
        changed = admin.put(f"{API}/users/ada", json={"password": "another long one", "role": "viewer"})
        assert (changed.status_code, changed.json()["role"]) == (200, "viewer")
        assert client.get(f"{API}/executions").status_code == 401
        again, csrf = signed_in(fresh, password="another long one")
        with again:
            headers = {"X-CSRF-Token": csrf}
            assert again.post(f"{API}/executions", json={"path": "x"}, headers=headers).status_code == 403
        assert admin.put(f"{API}/users/nobody", json={"role": "viewer"}).status_code == 404


def test_who_is_deleted_is_out(fresh: ApiServer) -> None:
    client, _ = signed_in(fresh)
    with client, fresh.client("admin") as admin:
        assert admin.delete(f"{API}/users/ada").status_code == 204
        assert client.get(f"{API}/executions").status_code == 401
        assert admin.delete(f"{API}/users/ada").status_code == 404


# -- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_good_until_revoked(server: ApiServer, admin: httpx2.Client) -> None:
    made = admin.post(f"{API}/tokens", json={"role": "viewer", "name": "ci"}).json()
    assert made["token"].startswith("noetl_")
    with server.client(None) as client:
        client.headers["Authorization"] = f"Bearer {made['token']}"
        assert client.get(f"{API}/executions").status_code == 200
        listed = next(item for item in admin.get(f"{API}/tokens").json()["items"] if item["id"] == made["id"])
        assert (listed["name"], listed["revoked"], "token" in listed) == ("ci", None, False)
        assert made["token"] not in admin.get(f"{API}/tokens").text
        assert admin.delete(f"{API}/tokens/{made['id']}").status_code == 204
        assert client.get(f"{API}/executions").status_code == 401
        assert admin.delete(f"{API}/tokens/{made['id']}").status_code == 404


def test_a_token_runs_out(fresh: ApiServer) -> None:
    with fresh.client("admin") as admin, fresh.client(None) as client:
        made = admin.post(f"{API}/tokens", json={"role": "viewer", "expires_in": 60}).json()
        client.headers["Authorization"] = f"Bearer {made['token']}"
        assert client.get(f"{API}/executions").status_code == 200
        fresh.clock.offset += 61
        assert client.get(f"{API}/executions").status_code == 401


def test_a_token_that_was_revoked_elsewhere_works_for_two_seconds_at_most(fresh: ApiServer) -> None:
    with fresh.client("viewer") as client:
        assert client.get(f"{API}/executions").status_code == 200
        fresh.store.access.revoke_token(fresh.ids["viewer"], fresh.clock.now())
        fresh.clock.offset += 2.1
        assert client.get(f"{API}/executions").status_code == 401


@pytest.mark.parametrize(
    "token",
    [
        {"role": "root"},
        {"role": "viewer", "pool": "a"},
        {"role": "viewer", "expires_in": 0},
        {"role": "viewer", "expires_in": -1},
        {"role": "viewer", "expires_in": 1e12},
        {"role": "viewer", "name": "x" * 201},
        {},
    ],
)
def test_a_token_that_cannot_be(admin: httpx2.Client, token: dict[str, object]) -> None:
    assert admin.post(f"{API}/tokens", json=token).status_code == 422
