"""Playbooks, credentials, tokens and users of a database as the JSON bodies of the API."""

from __future__ import annotations

from noetl.client.ports import Json
from noetl.store.access import Token, User
from noetl.store.ports import CatalogVersion, SealedCredential
from noetl.timestamps import optional_rfc3339, rfc3339


def version_view(entry: CatalogVersion) -> Json:
    return {
        "version": entry.version,
        "playbook_id": entry.digest,
        "label": entry.label,
        "registered": rfc3339(entry.registered),
    }


def credential_view(credential: SealedCredential) -> Json:
    return {
        "name": credential.name,
        "kind": credential.kind,
        "paths": list(credential.paths),
        "pools": list(credential.pools),
        "created": rfc3339(credential.created),
        "updated": rfc3339(credential.updated),
    }


def token_view(token: Token) -> Json:
    return {
        "id": token.id,
        "role": token.role,
        "name": token.name,
        "pool": token.pool,
        "created": rfc3339(token.created),
        "expires": optional_rfc3339(token.expires),
        "revoked": optional_rfc3339(token.revoked),
    }


def user_view(user: User) -> Json:
    return {"name": user.name, "role": user.role, "created": rfc3339(user.created)}
