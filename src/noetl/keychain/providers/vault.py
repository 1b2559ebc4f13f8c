"""provider: vault. HashiCorp Vault or OpenBao, the KV engine, version 2. Signs in with a token or with AppRole."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from noetl.keychain.providers import ProviderRequest
from noetl.keychain.rest import TOKENS, SecretServer


async def read(request: ProviderRequest) -> str:
    base = request.login_field("url", "VAULT_ADDR")
    if not base:
        raise request.failure("auth", "Vault's address is missing: give the credential a `url`, or set VAULT_ADDR")
    headers = {"X-Vault-Request": "true"}
    if namespace := request.login_field("namespace", "VAULT_NAMESPACE"):
        headers["X-Vault-Namespace"] = namespace
    server = SecretServer(request.where, "Vault")
    headers["X-Vault-Token"] = await _token(request, server, base, headers)
    mount = request.login_field("mount") or "secret"
    url = f"{base.rstrip('/')}/v1/{quote(mount.strip('/'))}/data/{request.path()}"
    params = {} if request.version is None else {"version": str(request.version)}
    response = await server.send("GET", url, params=params, headers=headers)
    if response.status == 404:
        name = f"{request.key!r}{request.version_suffix}"
        raise request.failure("not_found", f"Vault has no secret {name} below {mount!r}")
    data = response.at("data", "data")
    if not response.ok or not isinstance(data, dict):
        raise server.refusal(response)
    return msgspec.json.encode(data).decode()


async def _token(request: ProviderRequest, server: SecretServer, base: str, headers: dict[str, str]) -> str:
    token = request.login_field("token", "VAULT_TOKEN")
    if token is None:
        role = request.login_field("role_id", "VAULT_ROLE_ID")
        secret = request.login_field("secret_id", "VAULT_SECRET_ID")
        if not role or not secret:
            raise request.failure("auth", "Vault needs a `token`, or `role_id` and `secret_id`, to sign in with")
        request.taint(secret, request.where)
        url = f"{base.rstrip('/')}/v1/auth/{request.login_field('approle') or 'approle'}/login"
        path, seconds = ("auth", "client_token"), ("auth", "lease_duration")
        login = {"json": {"role_id": role, "secret_id": secret}, "headers": dict(headers)}
        identity = ["vault", base, headers, role, secret]
        token = await TOKENS.get(identity, lambda: server.token("POST", url, path=path, seconds=seconds, **login))
    request.taint(token, request.where)
    return token
