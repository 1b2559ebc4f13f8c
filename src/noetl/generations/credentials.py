"""`auth` without a keychain: an entry for each credential that a task names."""

from __future__ import annotations

import re

from noetl.classic.conversions import CREDENTIALS
from noetl.classic.nodes import as_list, as_map, list_at, map_at, put_after
from noetl.dsl.tree import Map, Seq, is_template
from noetl.generations.document import OtherDocument
from noetl.generations.names import reads_of
from noetl.model.inputs import fields

KINDS = {**CREDENTIALS, "s3": "s3_credential", "nats": "secret_manager"}
"""The kind of a credential by the kind of the tool that signs in with it."""
TYPES = {name: name for name in ("bearer", "basic", "api_key", "oauth2_client_credentials")}
"""Kinds of credentials that other generations name as the `type` of an `auth`."""
_FORMS = (frozenset(["type", "credential"]), frozenset(["type", "source", "key"]), frozenset(["type", "name"]))
_NAME = re.compile(r"\{\{\s*(?:workload\.)?(\w+)\s*\}\}")


def declare(document: OtherDocument) -> None:
    if document.is_classic or not isinstance(document.root.get("keychain", list_at(None)), Seq):
        return  # the classic dialect declares them itself
    own = _entries(document)
    for _, task, kind in document.all_tasks:
        written = task.get("auth")
        auth = _credential_name(written) if isinstance(written, Map) else written
        if kind is None or "auth" not in fields(kind.inputs) or not isinstance(auth, str):
            continue  # the checks report an input that the kind does not have
        entry_kind = KINDS.get(kind.name, TYPES.get(str(as_map(written).get("type")), ""))
        if is_template(auth):
            stored = _default(document, task, auth, entry_kind, own)
            if stored is None:
                continue
            auth = stored
        name = re.sub(r"\W", "_", auth)
        if name not in _entries(document):
            if not entry_kind:
                message = f"`auth: {auth}` has no keychain entry, and {kind.name} takes credentials of several kinds"
                document.refuse(task, "auth", message, f"add `keychain: [{{name: {name}, kind: bearer}}]`")
                continue
            if not isinstance(document.root.get("keychain"), Seq):
                put_after(document.root, "metadata", "keychain", list_at(document.root))
            stored = auth if name != auth else None
            document.root["keychain"].append(map_at(document.root, name=name, kind=entry_kind, credential=stored))
        task["auth"] = name


def _credential_name(auth: Map) -> str | None:
    """The credential that `{type: ..., credential: NAME}` and its like name; None where the map has its fields."""
    if not any(set(auth) <= form for form in _FORMS) or auth.get("source", "credential") != "credential":
        return None
    name = next((auth[key] for key in ("credential", "key", "name") if key in auth), None)
    return name if isinstance(name, str) else None


def _entries(document: OtherDocument) -> set[str]:
    return {str(as_map(entry).get("name")) for entry in as_list(document.root.get("keychain"))}


def _default(document: OtherDocument, task: Map, auth: str, kind: str, own: set[str]) -> str | None:
    """The credential that a template names with the inputs as declared; None where it stays a template.

    `own` are the entries of the document's own keychain, among which an input may choose.
    """
    workload = as_map(document.root.get("workload"))
    if any(read.path[0] == "keychain" for read in reads_of(auth)):
        return None
    match = _NAME.fullmatch(auth.strip())
    value = workload.get(match[1]) if match else None
    if match and isinstance(value, str) and value and not is_template(value):
        if value in own:
            return None
        command = f"`noetl credential set {value} --kind {kind or 'KIND'}`"
        message = f"`auth` was the input {match[1]!r} and is now its default {value!r}"
        if message not in {note.message for note in document.notes}:
            document.note(task, "auth", message, f"store the credential to use under that name: {command}")
        return value
    hint = "name an entry of the root `keychain`"
    document.refuse(task, "auth", f"`auth: {auth}` has no default in `workload`", hint)
    return None
