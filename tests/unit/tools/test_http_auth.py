"""Signing in with `auth`: what is sent, to whom, and that nobody else gets to read it."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import Any

import msgspec
import pytest
from tests.servers.wire import Answer, Asked, Wire, ask, failure, from_wire, reply, whole, wire

from noetl.model.outcome import Outcome
from noetl.testing import tool_context
from noetl.testing.tool import hiding
from noetl.tools import http
from noetl.tools.base import Context

SECRET = "s3cret-value/ü"
KEY = "s3cret-key/1 2"
PACKED = {"kind": "basic", "username": "ada", "password": SECRET}


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def signing(fields: dict[str, Any], **more: Any) -> Context:
    """A context whose keychain has one entry, and which hides nothing by itself."""
    return tool_context(http.KIND, {"shop": fields}, **{"redact": hiding([]), **more})


def signed(
    fields: dict[str, Any], answer: Answer | None = None, path: str = "/", **inputs: Any
) -> tuple[Outcome, Wire]:
    return from_wire(answer or reply(), path, given=signing(fields), auth="shop", **inputs)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "bearer", "token": "abc-token"},
        {"kind": "bearer", "token": "abc-token\n"},
        {"kind": "oauth2_client_credentials", "access_token": "abc-token", "client_secret": "other"},
        {"kind": "oauth2_client_credentials", "token": "abc-token"},
        {"token": "abc-token"},
        {"kind": "secret_manager", "token": "abc-token"},
    ],
    ids=str,
)
def test_token_goes_as_bearer(fields: dict[str, Any]) -> None:
    outcome, server = signed(fields)
    assert outcome.ok
    assert server.asked[0].headers["authorization"] == "Bearer abc-token"


@pytest.mark.parametrize("fields", [PACKED, {"username": "ada", "password": SECRET}], ids=["kind", "fields"])
def test_user_and_password_go_as_basic(fields: dict[str, Any]) -> None:
    outcome, server = signed(fields)
    assert outcome.ok
    scheme, packed = server.asked[0].headers["authorization"].split()
    assert (scheme, b64decode(packed).decode()) == ("Basic", f"ada:{SECRET}")


def test_api_key_goes_in_the_header_it_names() -> None:
    _, server = signed({"kind": "api_key", "value": KEY, "header": "X-Shop-Key"})
    assert server.asked[0].headers["x-shop-key"] == KEY


def test_api_key_goes_in_the_query_it_names() -> None:
    outcome, server = signed({"value": KEY, "query": "key"}, path="/orders?a=1", params={"b": 2})
    assert server.asked[0].line == "GET /orders?a=1&b=2&key=s3cret-key%2F1%202 HTTP/1.1"
    assert outcome.extra["http"]["url"] == f"{server.url}/orders?..."
    assert "s3cret" not in str(msgspec.to_builtins(outcome))


def test_map_in_place_of_a_name_signs_in_with_its_fields() -> None:
    outcome, server = from_wire(reply(), given=signing({}), auth={"token": "abc-token"})
    assert outcome.ok
    assert server.asked[0].headers["authorization"] == "Bearer abc-token"


def test_without_auth_nothing_is_sent() -> None:
    _, server = from_wire(reply(), given=signing(PACKED))
    assert "authorization" not in server.asked[0].headers


def test_unknown_entry_is_an_error_and_nothing_is_sent() -> None:
    outcome, server = from_wire(reply(), given=signing({}), auth="nowhere")
    error = failure(outcome)
    assert (error.kind, error.retryable, server.asked) == ("auth", False, [])
    assert "'nowhere'" in error.message
    assert outcome.extra["http"]["status"] is None


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"kind": "postgres_credential", "user": "a", "password": SECRET}, "auth", "of kind postgres_credential"),
        ({}, "auth", "it accepts a bearer token"),
        ({"kind": "bearer", "value": SECRET}, "auth", "needs `access_token`"),
        ({"kind": "bearer", "token": [SECRET]}, "auth", "needs `token` as text"),
        ({"kind": "basic", "username": "ada"}, "auth", "needs `password`"),
        ({"username": "a:b", "password": SECRET}, "auth", "colon"),
        ({"kind": "api_key", "value": SECRET}, "auth", "`header` or `query`"),
        ({"value": SECRET, "header": "X Key"}, "auth", "header 'X Key'"),
        ({"value": SECRET, "header": "Content-Length"}, "auth", "header 'Content-Length'"),
        ({"token": f"{SECRET}\r\nX-Evil: 1"}, "auth", "control character"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_credential_that_http_cannot_use(fields: dict[str, Any], kind: str, says: str) -> None:
    outcome, server = signed(fields)
    error = failure(outcome)
    assert (error.kind, server.asked) == (kind, [])
    assert says in error.message
    assert SECRET not in str(msgspec.to_builtins(outcome))


@pytest.mark.parametrize(
    ("fields", "inputs"),
    [
        ({"token": SECRET}, {"headers": {"authorization": "mine"}}),
        ({"value": SECRET, "header": "X-Key"}, {"headers": {"x-key": "mine"}}),
        ({"value": SECRET, "query": "key"}, {"params": {"key": "mine"}}),
    ],
    ids=["authorization", "header", "query"],
)
def test_who_asks_cannot_be_said_twice(fields: dict[str, Any], inputs: dict[str, Any]) -> None:
    outcome, server = signed(fields, **inputs)
    error = failure(outcome)
    assert (error.kind, server.asked) == ("input", [])
    assert "both" in error.message


def test_user_in_the_address_and_auth_are_two_answers() -> None:
    async def main() -> Outcome:
        return await ask("http://u:p@127.0.0.1:9/", given=signing({"token": SECRET}), auth="shop")

    assert failure(whole(main())).kind == "input"


def test_header_that_is_left_out_leaves_the_credential() -> None:
    _, server = signed({"token": "abc-token"}, headers={"Authorization": None})
    assert server.asked[0].headers["authorization"] == "Bearer abc-token"


# -- redirects --------------------------------------------------------------------------------------------------------

FORMS = [{"token": SECRET}, PACKED, {"value": KEY, "header": "X-Key"}, {"value": KEY, "query": "key"}]
IDS = ["bearer", "basic", "header", "query"]


def moved(location: str) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        there = asked.line.split()[1].startswith("/b")
        await (reply() if there else reply(b"", "302 Found", Location=location))(asked, writer)

    return answer


@pytest.mark.parametrize("fields", FORMS, ids=IDS)
def test_credential_follows_a_redirect_on_its_host(fields: dict[str, Any]) -> None:
    outcome, server = signed(fields, moved("/b?page=2"), "/a")
    assert outcome.ok
    first, second = server.asked
    sent = [{**asked.headers, "line": asked.line} for asked in (first, second)]
    name = str(fields.get("header", "Authorization")).lower()
    if "query" in fields:
        assert second.line == "GET /b?page=2&key=s3cret-key%2F1+2 HTTP/1.1"
    else:
        assert sent[0][name] == sent[1][name]


@pytest.mark.parametrize("fields", FORMS, ids=IDS)
def test_credential_does_not_follow_to_another_host(fields: dict[str, Any]) -> None:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(reply()) as other, wire(moved(f"http://localhost:{other.port}/b")) as first:
            return await ask(f"{first.url}/a", given=signing(fields), auth="shop"), other

    outcome, other = whole(main())
    assert outcome.ok
    (asked,) = other.asked
    assert asked.line == "GET /b HTTP/1.1"
    assert {"authorization", "x-key"} & asked.headers.keys() == set()


@pytest.mark.parametrize("query", ["key=s3cret-key%2F1%202", "other=s3cret-key%2f1+2", "a=b&c=s3cret-key/1%202#d"])
def test_redirect_that_takes_the_key_along_to_another_host_is_not_followed(query: str) -> None:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(reply()) as other:
            location = f"http://localhost:{other.port}/b?{query}"
            async with wire(moved(location)) as first:
                return await ask(f"{first.url}/a", given=signing({"value": KEY, "query": "key"}), auth="shop"), other

    outcome, other = whole(main())
    error = failure(outcome)
    assert (error.kind, error.retryable, other.asked) == ("http_status", False, [])
    assert "another host" in error.message
    assert "s3cret" not in str(msgspec.to_builtins(outcome))


def test_secret_that_the_author_put_into_the_query_does_not_go_along_either() -> None:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(reply()) as other, wire(moved(f"http://localhost:{other.port}/b?k=s3cret-key%2F1+2")) as first:
            return await ask(f"{first.url}/a", given=signing({}, redact=hiding([KEY])), params={"k": KEY}), other

    outcome, other = whole(main())
    assert (failure(outcome).kind, other.asked) == ("http_status", [])
    assert outcome.extra["http"]["headers"]["location"] == "***"


# -- what others get to read ------------------------------------------------------------------------------------------


async def echoing(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Answers with an error that repeats all it was sent."""
    body = msgspec.json.encode({"headers": asked.headers, "line": asked.line, "plain": SECRET, "key": KEY})
    await reply(body, "403 Forbidden", Content_Type="application/json")(asked, writer)


@pytest.mark.parametrize("fields", FORMS, ids=IDS)
def test_error_that_repeats_the_request_does_not_show_the_credential(fields: dict[str, Any]) -> None:
    outcome, _ = signed(fields, echoing)
    told = str(msgspec.to_builtins(outcome))
    own = SECRET if SECRET in fields.values() else KEY
    assert failure(outcome).details["body"]["plain" if own == SECRET else "key"] == "***"
    for form in (own, "s3cret-key%2F1%202", "s3cret-value%2F", "czNjcmV0LXZhbHVl"):
        assert form not in told.replace(KEY if own == SECRET else SECRET, "")


def test_text_is_redacted_before_it_is_cut() -> None:
    """The secret lies across the place where the body of an error is cut."""
    secret = "0123456789" * 5
    body = b"x" * 4080 + secret.encode() + b"y" * 100

    async def main() -> Outcome:
        async with wire(reply(body, "500 Oops", Content_Type="text/plain")) as server:
            return await ask(server.url, given=signing({}, redact=hiding([secret])))

    text = failure(whole(main())).details["body"]
    assert text.startswith("x" * 4080 + "***y")
    assert "0123456789" not in text


def test_long_path_is_redacted_before_it_is_cut() -> None:
    secret = "0123456789" * 5

    async def main() -> Outcome:
        async with wire(reply(b"", "404 Not Found")) as server:
            path = "x" * 480 + secret + "/more"
            return await ask(f"{server.url}/{path}", given=signing({}, redact=hiding([secret])))

    outcome = whole(main())
    assert "0123456789" not in str(msgspec.to_builtins(outcome))
    assert "***" in failure(outcome).message
