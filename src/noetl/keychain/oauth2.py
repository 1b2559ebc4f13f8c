"""OAuth 2.0 client credentials (RFC 6749, section 4.4): a token for the secret of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.keychain.rest import ask, refused
from noetl.keychain.tokens import DEFAULT_LIFE_SECONDS, TOKENS, Token

SERVER = "the token endpoint"


async def access_token(where: str, fields: Mapping[str, Any], taint: Callable[[str, str], None]) -> str:
    """A token that is good for a while, from the cache of the process or fresh."""
    token = await TOKENS.get(dict(fields), lambda: _request(where, fields))
    taint(token, where)
    return token


async def _request(where: str, fields: Mapping[str, Any]) -> Token:
    form = {"grant_type": "client_credentials"}
    form |= {name: fields[name] for name in ("scope", "audience") if fields.get(name)}
    headers = {"Accept": "application/json"}
    if fields.get("client_auth", "header") == "body":
        form |= {"client_id": fields["client_id"], "client_secret": fields["client_secret"]}
    else:
        headers["Authorization"] = _basic(fields["client_id"], fields["client_secret"])
    answer = await ask(where, SERVER, "POST", fields["token_url"], data=form, headers=headers)
    token = answer.at("access_token")
    if not answer.ok or not isinstance(token, str) or not token:
        raise refused(where, SERVER, answer, answer.word("error"))
    return Token(token, seconds_of(answer.at("expires_in")))


def _basic(client: str, secret: str) -> str:
    """RFC 6749, section 2.3.1: both are quoted as in a form before they are joined."""
    from base64 import b64encode
    from urllib.parse import quote_plus

    return "Basic " + b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()


def seconds_of(value: Any) -> float:
    """The life of a token as an answer tells it; some servers tell it as text."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return DEFAULT_LIFE_SECONDS
    return seconds if seconds > 0 else DEFAULT_LIFE_SECONDS
