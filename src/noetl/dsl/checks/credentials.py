"""Entries of the keychain, and the tasks that sign in with them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.dsl.checks.names import check_unique
from noetl.dsl.document_parts import Document
from noetl.dsl.problem import Check, Problems
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, is_template, span_in, span_of
from noetl.model.kind import Kind

UNKNOWN_CREDENTIAL = Check("NTL213", "error", "`auth` names an unknown keychain entry", stored_ok=False)
DUPLICATE_CREDENTIAL = Check("NTL214", "error", "two keychain entries have the same name", stored_ok=False)
COMPUTED_CREDENTIAL = Check("NTL217", "warning", "`auth` is a template that names no keychain entry")
WRONG_CREDENTIAL = Check("NTL218", "error", "the tool cannot use a credential of this kind", stored_ok=True)
STORE_SECRET = (
    "store a connection string with `noetl credential set NAME --kind KIND`, and name it in the root `keychain`"
)


def check(document: Document, kinds: KindSource, problems: Problems) -> None:
    entries = [entry for entry in document.root.get("keychain", []) if "name" in entry]
    named = ((entry["name"], span_in(entry, "name")) for entry in entries)
    check_unique(named, DUPLICATE_CREDENTIAL, "credential", problems)
    by_name = {entry["name"]: entry for entry in reversed(entries)}
    for holder, kind in _holders(document):
        auth = holder.get("auth")
        if not isinstance(auth, str):
            continue
        if (entry := by_name.get(auth)) is not None:
            _check_kind(holder, entry, kinds.get(kind), problems)
        elif document.declares_credentials and is_template(auth):
            _check_computed(holder, auth, set(by_name), document.root.get("workload", {}), problems)
        elif document.declares_credentials:
            _add_unknown(holder, auth, set(by_name), problems)


def _holders(document: Document) -> Iterator[tuple[Map, str]]:
    """The maps that may have `auth`, each with its tool kind: tasks, the ends of transfers, and defaults."""
    for site in document.every_task:
        yield site.tree, site.tree["kind"]
        for end in ("source", "target") if site.tree["kind"] == "transfer" else ():
            if isinstance(tree := site.tree.get(end), Map):
                yield tree, str(tree.get("kind"))
    for layer in document.all_layers:
        yield from ((value, name) for name, value in layer.items() if isinstance(value, Map))


def _check_kind(holder: Map, entry: Map, kind: Kind | None, problems: Problems) -> None:
    """Fields of a `secret_manager` and of the kinds of plug-ins are not known."""
    has = entry.get("kind")
    if (
        kind is None
        or not (accepted := kind.credentials)
        or not isinstance(has, str)
        or has in accepted
        or has == "secret_manager"
        or "." in has
    ):
        return
    line = problems.text.mark(span_of(entry).start).line
    message = f"{kind.name} cannot sign in with {entry['name']!r}, which is a {has} (line {line})"
    hint = f"name an entry of kind {' or '.join(accepted)}"
    problems.add(WRONG_CREDENTIAL, span_in(holder, "auth"), message, hint)


def _add_unknown(holder: Map, name: str, names: set[str], problems: Problems) -> None:
    message, hint = f"the keychain has no entry {name[:60]!r}", f"add `keychain: [{{name: {name[:40]}, kind: ...}}]`"
    if not _can_be_named(name):
        message, hint = f"the keychain has no entry of that name ({len(name)} characters)", STORE_SECRET
    problems.add(UNKNOWN_CREDENTIAL, span_in(holder, "auth"), message, problems.did_you_mean(name, names) or hint)


def _can_be_named(auth: str) -> bool:
    """Whether a message may show the text: one that cannot be a name may be a connection string with a password."""
    return re.fullmatch(r"[\w.-]+", auth) is not None


def _check_computed(holder: Map, auth: str, names: set[str], workload: Map, problems: Problems) -> None:
    """A template may give any name, or a map of fields; the default of an input is known."""
    read = re.fullmatch(r"\{\{\s*(?:workload\.)?(\w+)\s*\}\}", auth.strip())
    default = workload.get(read[1]) if read else None
    if isinstance(default, dict) or default in names or (names and not isinstance(default, str)):
        return
    if isinstance(default, str) and not is_template(default) and not _can_be_named(default):
        return  # a connection string
    entry = default if isinstance(default, str) and not is_template(default) else "NAME"
    message = "`auth` is a template, and the playbook has no `keychain`"
    if entry != "NAME":
        message = f"`auth` is {entry[:60]!r} unless an input sets another one, and the keychain has no such entry"
    hint = f"add `keychain: [{{name: {entry[:40]}, kind: ...}}]`, with an entry for each name that it may give"
    problems.add(COMPUTED_CREDENTIAL, span_in(holder, "auth"), message, hint)
