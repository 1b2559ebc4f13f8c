"""Secrets at Google, AWS and Vault.

Amazon's service is moto's server, and signatures are compared with those of Amazon's own library. The other two are
servers on loopback that look at each request as the pages of the real services describe it.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import msgspec
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from moto.server import ThreadedMotoServer
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from noetl.keychain.keychain import Keychain, StoredCredential
from noetl.keychain.providers import aws, google, vault
from noetl.keychain.rest import TokenCache
from noetl.model.outcome import Error, Failure
from noetl.model.playbook import Credential

VALUE = "the-s3cret-value"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    tokens = TokenCache()
    monkeypatch.setattr(google, "TOKENS", tokens)
    monkeypatch.setattr(vault, "TOKENS", tokens)


def keychain(login: dict[str, Any] | None, **environment: str) -> Keychain:
    async def fetch(name: str) -> StoredCredential:
        assert login is not None
        return StoredCredential(name, "secret_manager", login)

    return Keychain({"login": Credential("login", "secret_manager")}, fetch, "p", "default", environment=environment)


def secret(
    provider: str, key: str, login: dict[str, Any] | None = None, version: int | str | None = None, **environment: str
) -> dict[str, Any]:
    """A secret that is known to the redactor from then on."""
    one = keychain(login, **environment)
    process = asyncio.run(one.secret(provider, key, version, None, None if login is None else "login"))
    assert one.redactor.redact([*process.values()]) == ["***"] * len(process)
    return process


def failure(provider: str, key: str, *args: Any, **more: Any) -> Error:
    with pytest.raises(Failure) as caught:
        secret(provider, key, *args, **more)
    assert caught.value.outcome.error is not None
    return caught.value.outcome.error


def reply(status: int, data: Any) -> Response:
    return Response(msgspec.json.encode(data), status, content_type="application/json")


# -- Vault ------------------------------------------------------------------------------------------------------------


class Vault:
    """The KV engine, version 2, at `secret` and at `team/kv`, and AppRole."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("").rstrip("/")
        self.logins = 0
        self.namespaces: list[str | None] = []
        self.versions: list[dict[str, Any] | None] = [{"value": "the-old-value"}, None, {"value": VALUE, "user": "me"}]
        server.expect_request("/v1/auth/approle/login", method="POST").respond_with_handler(self.login)
        for mount in ("secret", "team/kv"):
            server.expect_request(f"/v1/{mount}/data/shop/api", method="GET").respond_with_handler(self.read)
            server.expect_request(f"/v1/{mount}/data/none").respond_with_data('{"errors":[]}', 404)
        server.expect_request("/v1/secret/data/busy").respond_with_data('{"errors":["sealed"]}', 503)
        server.expect_request("/v1/secret/data/odd").respond_with_data('{"data":{"data":[]}}', 200)

    def login(self, request: Request) -> Response:
        self.logins += 1
        if request.get_json() != {"role_id": "the-role", "secret_id": "the-s3cret-id"}:
            return reply(400, {"errors": ["invalid role or secret ID"]})
        return reply(200, {"auth": {"client_token": f"hvs.token-{self.logins}", "lease_duration": 1200}})

    def read(self, request: Request) -> Response:
        self.namespaces.append(request.headers.get("X-Vault-Namespace"))
        assert request.headers["X-Vault-Request"] == "true"
        if not request.headers.get("X-Vault-Token", "").startswith("hvs.token-"):
            return reply(403, {"errors": ["permission denied"]})
        version = int(request.args.get("version", len(self.versions)))
        data = self.versions[version - 1] if version <= len(self.versions) else None
        metadata = {"version": version, "destroyed": False, "deletion_time": "" if data else "2026-01-01T00:00:00Z"}
        return reply(200 if data else 404, {"data": {"data": data, "metadata": metadata}})


@pytest.fixture
def the_vault(httpserver: HTTPServer) -> Vault:
    return Vault(httpserver)


def test_vault_by_token(the_vault: Vault) -> None:
    login = {"url": the_vault.url + "/", "token": "hvs.token-9"}
    one = keychain(login)
    process = asyncio.run(one.secret("vault", "/shop/api", None, {"token": "value"}, "login"))
    assert process == {"token": VALUE}
    assert one.redactor.redact(f"hvs.token-9 {VALUE}") == "*** ***"


def test_vault_by_the_environment(the_vault: Vault) -> None:
    one = keychain(None, VAULT_ADDR=the_vault.url, VAULT_TOKEN="hvs.token-9", VAULT_NAMESPACE="shop")
    assert asyncio.run(one.secret("vault", "shop/api"))["value"] == VALUE
    assert the_vault.namespaces == ["shop"]


def test_vault_by_approle_signs_in_once(the_vault: Vault) -> None:
    login = {"url": the_vault.url, "role_id": "the-role", "secret_id": "the-s3cret-id", "mount": "team/kv"}

    async def story() -> Keychain:
        chains = [keychain(login) for _ in range(4)]
        for found in await asyncio.gather(*(chain.secret("vault", "shop/api", auth="login") for chain in chains)):
            assert found["value"] == VALUE
        return chains[0]

    assert asyncio.run(story()).redactor.redact("hvs.token-1 the-s3cret-id the-role") == "*** *** the-role"
    assert the_vault.logins == 1


def test_versions_in_vault(the_vault: Vault) -> None:
    login = {"url": the_vault.url, "token": "hvs.token-9"}
    assert secret("vault", "shop/api", login, 1) == {"value": "the-old-value"}
    error = failure("vault", "shop/api", login, 2)
    assert (error.kind, error.message) == (
        "not_found",
        "secret 'shop/api' of vault: Vault has no secret 'shop/api' in version 2 below 'secret'",
    )


@pytest.mark.parametrize(
    ("key", "login", "kind", "retryable", "message"),
    [
        ("none", {"token": "hvs.token-9"}, "not_found", False, "Vault has no secret 'none'"),
        ("shop/api", {"token": "hvs.wrong-9"}, "auth", False, "Vault returned 403"),
        ("shop/api", {"role_id": "the-role", "secret_id": "wrong-s3cret"}, "auth", False, "Vault returned 400"),
        ("shop/api", {"role_id": "the-role"}, "auth", False, "Vault needs a `token`"),
        ("busy", {"token": "hvs.token-9"}, "auth", True, "Vault returned 503"),
        ("odd", {"token": "hvs.token-9"}, "auth", False, "returned an unexpected response"),
        ("../../sys/x", {"token": "hvs.token-9"}, "input", False, "is not the path of a secret"),
    ],
    ids=["none", "token", "approle", "half", "busy", "odd", "path"],
)
def test_vault_in_trouble(
    the_vault: Vault, key: str, login: dict[str, str], kind: str, retryable: bool, message: str
) -> None:
    error = failure("vault", key, login | {"url": the_vault.url})
    assert (error.kind, error.retryable) == (kind, retryable)
    assert message in error.message


def test_vault_that_is_nowhere() -> None:
    assert "VAULT_ADDR" in failure("vault", "shop/api").message
    error = failure("vault", "shop/api", {"url": "http://127.0.0.1:9", "token": "hvs.token-9"})
    assert (error.kind, error.retryable) == ("connect", True)


def test_an_entry_signs_in_with_a_credential_of_the_store(the_vault: Vault) -> None:
    async def fetch(name: str) -> StoredCredential:
        assert name == "vault_login"
        return StoredCredential(name, "secret_manager", {"url": the_vault.url, "token": "hvs.token-9"})

    entry = Credential("api", "bearer", "vault_login", "vault", "shop/api", {"token": "value"})
    one = Keychain({"api": entry}, fetch, "p", "default", environment={})
    assert asyncio.run(one.fields("api")) == {"kind": "bearer", "token": VALUE}
    assert one.redactor.redact("hvs.token-9") == "***"


# -- Google -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signing_key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


class Google:
    """Secret Manager, the token endpoint of service accounts, and a metadata server."""

    def __init__(self, server: HTTPServer, key: RSAPrivateKey) -> None:
        self.url = server.url_for("").rstrip("/")
        self.key = key
        self.assertions = 0
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.account = {
            "type": "service_account",
            "project_id": "shop",
            "private_key_id": "key-1",
            "private_key": pem,
            "client_email": "worker@shop.example",
            "token_uri": f"{self.url}/token",
        }
        server.expect_request("/token", method="POST").respond_with_handler(self.token)
        path = "/computeMetadata/v1/instance/service-accounts/default/token"
        server.expect_request(path, headers={"Metadata-Flavor": "Google"}).respond_with_json(
            {"access_token": "ya29.machine", "expires_in": 3600, "token_type": "Bearer"}
        )
        base = "/v1/projects/shop/secrets"
        for name, data in {"api": VALUE.encode(), "binary": b"\xff\xfe\xfd"}.items():
            for version in ("latest", "3"):
                shown = VALUE.encode() if version == "latest" else b"the-third-value"
                content = shown if name == "api" else data
                server.expect_request(f"{base}/{name}/versions/{version}:access", method="GET").respond_with_handler(
                    lambda request, content=content: self.access(request, content)
                )
        server.expect_request(f"{base}/none/versions/latest:access").respond_with_json(
            {"error": {"code": 404, "status": "NOT_FOUND"}}, 404
        )

    def token(self, request: Request) -> Response:
        self.assertions += 1
        form = parse_qs(request.get_data(as_text=True))
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        signed, _, signature = form["assertion"][0].rpartition(".")
        self.key.public_key().verify(decoded(signature), signed.encode(), PKCS1v15(), SHA256())
        header, claims = (msgspec.json.decode(decoded(part)) for part in signed.split("."))
        assert header == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        assert claims["iss"] == "worker@shop.example"
        assert claims["aud"] == f"{self.url}/token"
        assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        assert claims["exp"] - claims["iat"] == 3600
        assert abs(claims["iat"] - time.time()) < 300
        return reply(200, {"access_token": "ya29.account", "expires_in": 3599, "token_type": "Bearer"})

    def access(self, request: Request, content: bytes) -> Response:
        if request.headers.get("Authorization") not in ("Bearer ya29.account", "Bearer ya29.machine"):
            return reply(401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}})
        return reply(
            200, {"name": "projects/1/secrets/api/versions/1", "payload": {"data": b64encode(content).decode()}}
        )


def decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.fixture
def the_google(httpserver: HTTPServer, signing_key: RSAPrivateKey) -> Google:
    return Google(httpserver, signing_key)


def test_google_by_service_account(the_google: Google) -> None:
    login = {"service_account": the_google.account, "endpoint": the_google.url}
    one = keychain(login)
    assert asyncio.run(one.secret("google", "api", None, None, "login")) == {"value": VALUE}
    assert asyncio.run(one.secret("google", "projects/shop/secrets/api", 3, None, "login")) == {
        "value": "the-third-value"
    }
    assert the_google.assertions == 1
    line = the_google.account["private_key"].splitlines()[2]
    assert one.redactor.redact(f"ya29.account {line}") == "*** ***"


@pytest.mark.parametrize("form", ["fields", "text", "file"])
def test_forms_of_a_service_account(the_google: Google, form: str, tmp_path: Path) -> None:
    text = msgspec.json.encode(the_google.account).decode()
    environment = {}
    login: dict[str, Any] | None = {"endpoint": the_google.url}
    if form == "fields":
        login = the_google.account | login
    elif form == "text":
        login = {"service_account": text, "project": "shop"} | login
    else:
        (tmp_path / "account.json").write_text(text)
        login, environment = None, {"CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{the_google.url}/"}
        environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / "account.json")
    assert secret("google", "api", login, **environment) == {"value": VALUE}


def test_google_as_the_machine(the_google: Google) -> None:
    host = the_google.url.removeprefix("http://")
    environment = {"GCE_METADATA_HOST": host, "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": the_google.url}
    assert secret("google", "api", GOOGLE_CLOUD_PROJECT="shop", **environment) == {"value": VALUE}


@pytest.mark.parametrize(
    ("key", "login", "kind", "message"),
    [
        ("none", {}, "not_found", "has no projects/shop/secrets/none/versions/latest"),
        ("binary", {}, "auth", "is not UTF-8 text"),
        ("projects/../x", {}, "input", "is not the path of a secret"),
        ("api", {"token": "ya29.wrong", "project": "shop"}, "auth", "returned 401 UNAUTHENTICATED"),
        ("api", {"token": "ya29.wrong"}, "auth", "the project is unknown"),
        ("api", {"service_account": "not a map"}, "auth", "is not the JSON of a key"),
        ("api", {"service_account_file": "/no/such/file"}, "auth", "cannot read"),
        (
            "api",
            {"service_account": {"client_email": "a", "private_key": "no-key-at-all", "project_id": "shop"}},
            "auth",
            "is not a key in PEM",
        ),
    ],
    ids=["none", "binary", "path", "token", "project", "account", "file", "pem"],
)
def test_google_in_trouble(the_google: Google, key: str, login: dict[str, Any], kind: str, message: str) -> None:
    login = login or {"service_account": the_google.account}
    error = failure("google", key, login | {"endpoint": the_google.url})
    assert error.kind == kind
    assert message in error.message


# -- AWS --------------------------------------------------------------------------------------------------------------

KEYS = {"access_key_id": "AKIAEXAMPLE", "secret_access_key": "s3cret/access+key", "region": "eu-west-1"}


@pytest.fixture(scope="module")
def amazon() -> Iterator[tuple[str, Any]]:
    """The address of moto's server, and Amazon's own client on it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        client = boto3.client(
            "secretsmanager",
            endpoint_url=endpoint,
            region_name="eu-west-1",
            aws_access_key_id="AKIAEXAMPLE",
            aws_secret_access_key="s3cret/access+key",
        )
        yield endpoint, client
        client.close()
    finally:
        server.stop()


def test_aws_secrets(amazon: tuple[str, Any]) -> None:
    endpoint, client = amazon
    arn = client.create_secret(Name="shop/api", SecretString="the-old-value")["ARN"]
    newer = client.put_secret_value(SecretId="shop/api", SecretString=VALUE)["VersionId"]
    login = KEYS | {"endpoint": endpoint}
    assert secret("aws", "shop/api", login) == {"value": VALUE}
    assert secret("aws", arn, {name: value for name, value in login.items() if name != "region"}) == {"value": VALUE}
    assert secret("aws", "shop/api", login, "AWSPREVIOUS") == {"value": "the-old-value"}
    assert secret("aws", "shop/api", login, newer) == {"value": VALUE}


def test_aws_fields_and_bytes(amazon: tuple[str, Any]) -> None:
    endpoint, client = amazon
    client.create_secret(Name="fields", SecretString='{"user": "me", "password": "the-s3cret-word"}')
    client.create_secret(Name="bytes", SecretBinary=VALUE.encode())
    client.create_secret(Name="binary", SecretBinary=b"\xff\xfe\xfd")
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "s3cret/access+key",
        "AWS_SESSION_TOKEN": "the-session-token",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
    }
    one = keychain(None, **environment)
    assert asyncio.run(one.secret("aws", "fields")) == {"user": "me", "password": "the-s3cret-word"}
    assert one.redactor.redact("the-session-token s3cret/access+key AKIAEXAMPLE") == "*** *** AKIAEXAMPLE"
    assert secret("aws", "bytes", **environment) == {"value": VALUE}
    assert "not UTF-8 text" in failure("aws", "binary", **environment).message


@pytest.mark.parametrize(
    ("login", "key", "kind", "message"),
    [
        (KEYS, "none", "not_found", "AWS Secrets Manager has no secret 'none'"),
        ({"access_key_id": "AKIAEXAMPLE"}, "none", "auth", "needs `access_key_id` and `secret_access_key`"),
        ({"access_key_id": "A", "secret_access_key": "s3cret-key"}, "none", "auth", "the region is unknown"),
        (KEYS | {"region": "evil.example/"}, "none", "auth", "the region is unknown"),
    ],
    ids=["none", "half", "region", "bad-region"],
)
def test_aws_in_trouble(amazon: tuple[str, Any], login: dict[str, Any], key: str, kind: str, message: str) -> None:
    error = failure("aws", key, login | {"endpoint": amazon[0]})
    assert error.kind == kind
    assert message in error.message


@pytest.mark.parametrize("session", [None, "the-session-token"])
def test_the_signature_is_amazons(session: str | None) -> None:
    url, body = "https://secretsmanager.eu-west-1.amazonaws.com/", b'{"SecretId":"shop/api"}'
    at = "20260131T120000Z"
    ours = aws.signed(aws.Keys("AKIAEXAMPLE", "s3cret/access+key", session, "eu-west-1"), url, body, at)
    headers = {"Content-Type": ours["content-type"], "X-Amz-Target": ours["x-amz-target"], "X-Amz-Date": at}
    if session:
        headers["X-Amz-Security-Token"] = session
    request = AWSRequest("POST", url, data=body, headers=headers)
    request.context["timestamp"] = at
    auth = SigV4Auth(Credentials("AKIAEXAMPLE", "s3cret/access+key", session), "secretsmanager", "eu-west-1")
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert ours["authorization"].endswith(f"Signature={signature}")
