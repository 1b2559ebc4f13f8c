"""provider: google. Google Secret Manager: `key` is `projects/P/secrets/NAME`, or `NAME` in its own project.

Signs in with a service account, with a `token`, or as the machine it runs on through the metadata server.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import quote

import msgspec

from noetl.json_errors import NOT_JSON
from noetl.keychain.providers import ProviderRequest
from noetl.keychain.rest import TOKENS, AccessToken, SecretServer

ENDPOINT = "https://secretmanager.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
METADATA = "metadata.google.internal"


async def read(request: ProviderRequest) -> str:
    account = _service_account(request)
    name = _name(request, account)
    endpoint = request.login_field("endpoint", "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER") or ENDPOINT
    token = await _token(request, account)
    request.taint(token, request.where)
    headers = {"Authorization": f"Bearer {token}"}
    server = SecretServer(request.where, "Google Secret Manager")
    response = await server.send("GET", f"{endpoint.rstrip('/')}/v1/{name}:access", headers=headers)
    if response.status == 404:
        raise request.failure("not_found", f"{server.name} has no {name}")
    data = response.at("payload", "data")
    if not response.ok or not isinstance(data, str):
        raise server.refusal(response, response.word("error", "status"))
    try:
        return b64decode(data).decode()
    except ValueError:
        raise request.failure("auth", f"{name} is not UTF-8 text") from None


def _name(request: ProviderRequest, account: Mapping[str, Any] | None) -> str:
    key = request.path()
    if "/" not in key:
        project = request.login_field("project", "GOOGLE_CLOUD_PROJECT") or (account or {}).get("project_id")
        if not project:
            raise request.failure("auth", "the project is unknown: write the key as projects/PROJECT/secrets/NAME")
        key = f"projects/{quote(project, safe='')}/secrets/{key}"
    if "/versions/" not in key:
        version = "latest" if request.version is None else str(request.version)
        key = f"{key}/versions/{quote(version, safe='')}"
    return key


def _service_account(request: ProviderRequest) -> Mapping[str, Any] | None:
    fields = request.login
    account = fields.get("service_account", fields if "private_key" in fields else None)
    if account is None:
        file = request.login_field("service_account_file", "GOOGLE_APPLICATION_CREDENTIALS")
        try:
            account = Path(file).read_bytes() if file else None
        except OSError as error:
            raise request.failure("auth", f"cannot read the service account: {error.strerror}") from None
    if isinstance(account, str | bytes):
        try:
            account = msgspec.json.decode(account)
        except NOT_JSON:
            account = {}
    if account is not None and not (isinstance(account, Mapping) and {"client_email", "private_key"} <= account.keys()):
        raise request.failure("auth", "the service account is not the JSON of a key with client_email and private_key")
    return account


async def _token(request: ProviderRequest, account: Mapping[str, Any] | None) -> str:
    if token := request.login_field("token"):
        return token
    if account is not None:
        request.taint(account["private_key"], request.where)
        return await TOKENS.get(dict(account), lambda: _signed(request, account))
    named = request.login.get("metadata_host")
    host = str(named or request.login_field("metadata_host", "GCE_METADATA_HOST") or METADATA)
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    headers, server = {"Metadata-Flavor": "Google"}, SecretServer(request.where, "the metadata server")
    # The metadata server of this machine is allowed, unless a credential names another one.
    get = partial(server.token, "GET", url, headers=headers, own=named is None)
    return await TOKENS.get(["google metadata", host], get)


async def _signed(request: ProviderRequest, account: Mapping[str, Any]) -> AccessToken:
    """A token for an assertion that the key of the service account signs (RFC 7523)."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    url, now = account.get("token_uri") or "https://oauth2.googleapis.com/token", int(time())
    header = {"alg": "RS256", "typ": "JWT"}
    if "private_key_id" in account:
        header["kid"] = account["private_key_id"]
    claims = {"iss": account["client_email"], "scope": SCOPE, "aud": url, "iat": now, "exp": now + 3600}
    signed = b".".join(_part(msgspec.json.encode(part)) for part in (header, claims))
    try:
        key = load_pem_private_key(account["private_key"].encode(), None)
    except (ValueError, TypeError, AttributeError):
        raise request.failure("auth", "the private_key of the service account is not a key in PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise request.failure("auth", "the private_key of the service account is not an RSA key")
    assertion = b".".join([signed, _part(key.sign(signed, PKCS1v15(), SHA256()))])
    form = {"grant_type": GRANT, "assertion": assertion.decode()}
    return await SecretServer(request.where, "Google's token endpoint").token("POST", url, data=form)


def _part(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
