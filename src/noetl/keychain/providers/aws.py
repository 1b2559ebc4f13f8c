"""provider: aws. AWS Secrets Manager: `key` is the name or the ARN of a secret, `version` a version's id, or a stage.

Signed by hand: the signature is two pages of the manual, and the vendor's library is 30 MB.
"""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import UTC, datetime
from hashlib import sha256
from hmac import digest
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from noetl.keychain.providers import ProviderRequest
from noetl.keychain.rest import SecretServer

SERVICE = "secretsmanager"


class Keys(NamedTuple):
    id: str
    secret: str
    session: str | None
    region: str


async def read(request: ProviderRequest) -> str:
    keys = _keys(request)
    endpoint = request.login_field("endpoint", "AWS_ENDPOINT_URL_SECRETS_MANAGER", "AWS_ENDPOINT_URL")
    url = (endpoint or f"https://{SERVICE}.{keys.region}.amazonaws.com").rstrip("/") + "/"
    parameters = {"SecretId": request.key}
    if request.version is not None:
        version = str(request.version)
        parameters["VersionId" if re.fullmatch(r"[A-Za-z0-9-]{32,64}", version) else "VersionStage"] = version
    body = msgspec.json.encode(parameters)
    headers = signed(keys, url, body, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    server = SecretServer(request.where, "AWS Secrets Manager")
    response = await server.send("POST", url, content=body, headers=headers)
    if not response.ok:
        word = response.word("__type").rpartition("#")[2]
        if word == "ResourceNotFoundException":
            raise request.failure("not_found", f"{server.name} has no secret {request.key!r}{request.version_suffix}")
        raise server.refusal(response, word)
    text = response.at("SecretString")
    try:
        return text if isinstance(text, str) else b64decode(response.at("SecretBinary")).decode()
    except (TypeError, ValueError):
        raise request.failure("auth", f"{request.key} is not UTF-8 text") from None


def _keys(request: ProviderRequest) -> Keys:
    key_id = request.login_field("access_key_id", "AWS_ACCESS_KEY_ID")
    secret = request.login_field("secret_access_key", "AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        raise request.failure(
            "auth",
            "AWS needs `access_key_id` and `secret_access_key` to sign in with, or the variables AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY",
        )
    session = request.login_field("session_token", "AWS_SESSION_TOKEN")
    for value in filter(None, (secret, session)):
        request.taint(value, request.where)
    arn = request.key.split(":")
    region = arn[3] if arn[0] == "arn" and len(arn) > 5 else None
    region = region or request.login_field("region", "AWS_REGION", "AWS_DEFAULT_REGION")
    if not region or not re.fullmatch(r"[a-z0-9-]+", region):
        raise request.failure("auth", "the region is unknown: give the credential a `region`, or set AWS_REGION")
    return Keys(key_id, secret, session, region)


def signed(keys: Keys, url: str, body: bytes, at: str) -> dict[str, str]:
    """The headers of a request with its signature, version 4. `at` is the time as `20260131T120000Z`."""
    parts = urlsplit(url)
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "host": parts.netloc,
        "x-amz-date": at,
        "x-amz-target": f"{SERVICE}.GetSecretValue",
    }
    if keys.session:
        headers["x-amz-security-token"] = keys.session
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name].strip()}" for name in sorted(headers)]
    canonical = "\n".join(["POST", quote(parts.path or "/"), "", *lines, "", names, sha256(body).hexdigest()])
    scope = f"{at[:8]}/{keys.region}/{SERVICE}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + keys.secret.encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    signature = digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
