"""OAuth 2.0 client credentials (RFC 6749, section 4.4): a token for the secret of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.keychain.rest import SecretServer
from noetl.keychain.tokens import TOKENS, AccessToken


async def access_token(where: str, fields: Mapping[str, Any], taint: Callable[[str, str], None]) -> str:
    """A valid token, from the cache of the process or new."""
    token = await TOKENS.get(dict(fields), lambda: _request(where, fields))
    taint(token, where)
    return token


async def _request(where: str, fields: Mapping[str, Any]) -> AccessToken:
    from base64 import b64encode
    from urllib.parse import quote_plus

    form = {"grant_type": "client_credentials"}
    form |= {name: fields[name] for name in ("scope", "audience") if fields.get(name)}
    headers = {"Accept": "application/json"}
    if fields.get("client_auth", "header") == "body":
        form |= {"client_id": fields["client_id"], "client_secret": fields["client_secret"]}
    else:  # RFC 6749, section 2.3.1: both are quoted as in a form before they are joined
        client = f"{quote_plus(fields['client_id'])}:{quote_plus(fields['client_secret'])}"
        headers["Authorization"] = f"Basic {b64encode(client.encode()).decode()}"
    server = SecretServer(where, "the token endpoint")
    return await server.token("POST", fields["token_url"], data=form, headers=headers)
