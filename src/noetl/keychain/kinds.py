"""The kinds of credentials: which fields each has, and which of them are secret.

A field is secret unless its name is in `PUBLIC`, so fields of plug-ins and secret managers are hidden by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from noetl.keychain.redact import MAX_REDACTED
from noetl.keychain.secret_forms import MIN_REDACTED
from noetl.printable import RAW_PASSWORD, has_raw_password


class CredentialShape(NamedTuple):
    forms: tuple[tuple[str, ...], ...]  # required: all the fields of one of these
    more: tuple[str, ...]
    text: str | None  # the field that a plain text of a provider sets
    preset: Mapping[str, str]  # fields that are set with such a text


def _shape(forms: str, more: str = "", text: str | None = None, **preset: str) -> CredentialShape:
    """`forms` are alternatives, separated by |; `more` are optional fields."""
    return CredentialShape(tuple(tuple(form.split()) for form in forms.split("|")), tuple(more.split()), text, preset)


HIDDEN = "(secret)"
WEBHOOK = "webhook"  # the shared secret of a webhook: only the server can read it, never a worker

SHAPES: dict[str, CredentialShape] = {
    "postgres_credential": _shape(
        "dsn | host user database",
        "port password sslmode sslrootcert sslcert sslkey options application_name connect_timeout "
        "target_session_attrs",
        "dsn",
    ),
    "bearer": _shape("token", text="token"),
    "basic": _shape("username password"),
    "api_key": _shape("value header | value query", text="value", header="X-API-Key"),
    "oauth2_client_credentials": _shape("token_url client_id client_secret", "scope audience client_auth"),
    "snowflake_credential": _shape(
        "account user password | account user private_key | account user token",
        "private_key_passphrase warehouse database schema role authenticator host port protocol region password",
    ),
    "gcs_credential": _shape(
        "service_account | token | type client_email private_key | anonymous",
        "project endpoint project_id private_key_id client_id auth_uri token_uri auth_provider_x509_cert_url "
        "client_x509_cert_url universe_domain",
        "token",
    ),
    "s3_credential": _shape("access_key_id secret_access_key", "session_token region endpoint"),
    WEBHOOK: _shape("secret", text="secret"),
    "secret_manager": _shape("", text="value"),
}
"""The built-in kinds. `secret_manager` and the kinds of plug-ins accept any fields."""

PLUGIN = r"[a-z][a-z0-9_-]*\.[A-Za-z0-9_.-]+"  # a kind of a plug-in: the name of the plug-in, a dot, and a name

PUBLIC = frozenset(
    [
        *("kind", "type", "name", "email", "host", "port", "user", "username", "database", "schema", "role", "region"),
        *("warehouse", "account", "authenticator", "protocol", "endpoint", "url", "servers", "address", "anonymous"),
        *("mount", "approle", "namespace", "role_id", "access_key_id", "account_name", "tenant_id", "header", "query"),
        *("token_url", "token_type", "client_id", "client_auth", "scope", "audience", "project", "project_id"),
        *("client_email", "auth_uri", "token_uri", "universe_domain", "private_key_id", "auth_provider_x509_cert_url"),
        *("client_x509_cert_url", "service_account_file", "metadata_host", "sslmode", "sslrootcert", "sslcert"),
        *("sslkey", "options", "application_name", "connect_timeout", "target_session_attrs", "engine", "dbname"),
        *("dbInstanceIdentifier", "dbClusterIdentifier"),
    ]
)


def is_known(kind: str) -> bool:
    return kind in SHAPES or re.fullmatch(PLUGIN, kind) is not None


def faults(kind: str, fields: Mapping[str, Any]) -> Iterator[str]:
    """The errors in the fields of a credential. No message contains a value."""
    shape, unknown = SHAPES.get(kind), set[str]()
    if shape is None or kind == "secret_manager":
        if not fields:
            yield "it has no fields"
    else:
        present = {name for name, value in fields.items() if value not in (None, "")}
        if not any(present.issuperset(form) for form in shape.forms):
            yield f"it needs {' or '.join('{' + ', '.join(form) + '}' for form in shape.forms)}"
        allowed = {*shape.more, *(name for form in shape.forms for name in form)}
        unknown = fields.keys() - allowed
        for name in fields:
            if name in unknown:
                yield f"{name!r} is not a field of this kind, which has {', '.join(sorted(allowed))}"
    for name, value in fields.items():
        if name in unknown:
            continue
        if name == "dsn" and isinstance(value, str) and has_raw_password(value):
            yield f"{name}: {RAW_PASSWORD}"
        if any(len(secret.strip()) < MIN_REDACTED for secret in _leaves(name, value)):
            yield f"{name} is shorter than {MIN_REDACTED} characters: it cannot be hidden in results and logs"
        if any(len(secret) > MAX_REDACTED for secret in _leaves(name, value)):
            yield f"{name} is longer than {MAX_REDACTED:,} characters: it cannot be hidden in results and logs"


def secrets_in(fields: Mapping[str, Any]) -> Iterator[str]:
    """Every value to hide, including those inside a connection string or a JSON text."""
    for name, value in fields.items():
        for secret in _leaves(name, value):
            yield secret
            for key, item in (_json_map(secret) or {}).items():  # such as a service account
                yield from (inner for inner in _leaves(key, item) if len(inner.strip()) >= MIN_REDACTED)


def public_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a credential as they may be shown: secret values are hidden."""
    return {
        name: value
        if name in PUBLIC and isinstance(value, str | int | bool) and not any(secrets_in({name: value}))
        else HIDDEN
        for name, value in fields.items()
    }


def _leaves(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value and name not in PUBLIC:
            yield value
        if (name == "dsn" or "://" in value) and (password := password_of(value)):
            yield password
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # As Python and JSON write it. Shorter numbers are ports, limits and versions: too common to hide.
        whole = isinstance(value, float) and value.is_integer()
        texts = (repr(value), repr(int(value)) if whole else "") if name not in PUBLIC else ()
        yield from (text for text in texts if len(text) >= MIN_REDACTED)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)


def _json_map(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        fields: dict[str, Any] = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return fields


def is_dsn(text: str) -> bool:
    """Whether a text is a connection string and not a name: `postgresql://...` or `host=... dbname=...`."""
    return "://" in text or "=" in text


def password_of(dsn: str) -> str | None:
    if "://" not in dsn:
        match = re.search(r"\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))", dsn)
        return None if match is None else re.sub(r"\\(.)", r"\1", match[1] or match[2] or "")
    try:
        parts = urlsplit(dsn)
        return unquote(parts.password) if parts.password else parse_qs(parts.query).get("password", [None])[0]
    except ValueError:
        return None


def fields_of(kind: str, text: str) -> dict[str, Any] | None:
    """The fields in the text of a provider: a JSON map, or a plain text for one field; None if the kind has no such
    field."""
    fields = _json_map(text)
    if fields is not None:
        return fields
    shape = SHAPES.get(kind, SHAPES["secret_manager"])
    return None if shape.text is None else {shape.text: text, **shape.preset}
