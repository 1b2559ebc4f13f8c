"""The keychain of a lease: resolves entries of the playbook to fields, and adds every value to the redactor first.

It caches resolved entries as long as the lease lives, so that all tasks of a pipeline sign in with the same values;
only expiring tokens are checked again. Every run makes one and few use it, so HTTP clients are imported when needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from noetl.errors import NoetlError
from noetl.keychain.kinds import WEBHOOK, faults, fields_of, is_dsn, is_known, secrets_in
from noetl.keychain.providers import PROVIDERS, ProviderRequest, read
from noetl.keychain.redact import Redactor
from noetl.keychain.rest import SharedTasks, access_token
from noetl.keychain.secret_forms import MIN_REDACTED
from noetl.model.outcome import Failure
from noetl.model.playbook import Credential, Playbook
from noetl.reference import KEYCHAIN, SECRET, Reference
from noetl.settings import variables
from noetl.store.credentials import SealedCredential

Fields = dict[str, Any]
Names = Mapping[str, str]
Version = int | str | None

OWN = "credential"  # the provider name of noetl's own store
OAUTH2 = "oauth2_client_credentials"
NEARBY = (None, OWN, "env", "file")  # providers that need no request to another server
FIELD = "value"  # the field of a secret that is one text


class Handle(NamedTuple):
    """A placeholder of a secret in results, events and logs, which only the keychain of a lease can open: a reference
    to the store `secret`. Its key is the address of the secret, never its value: `PROVIDER/KEY@VERSION#FIELD`, with
    `!ENTRY` at the end if a keychain entry is used to sign in at the provider."""

    provider: str
    key: str
    field: str
    version: Version = None
    auth: str | None = None

    def reference(self) -> Reference:
        version, field = ("" if part is None else quote(str(part), safe="") for part in (self.version, self.field))
        auth = "" if self.auth is None else f"!{quote(self.auth, safe='')}"
        return _reference_to(f"{self.provider}/{quote(self.key)}@{version}#{field}{auth}")


def _reference_to(handle: str) -> Reference:
    return Reference(SECRET, handle, 0, "", SECRET)


def handle_of(reference: Reference) -> Handle:
    """The handle of a reference; ValueError if it is another reference."""
    if reference.store != SECRET:
        raise ValueError(f"a reference to the store {reference.store!r} is not a handle of a secret")
    provider, _, rest = reference.key.partition("/")
    key, _, rest = rest.partition("@")
    version, _, rest = rest.partition("#")
    field, marked, auth = rest.partition("!")
    return Handle(provider, unquote(key), unquote(field), unquote(version) or None, unquote(auth) if marked else None)


class StoredCredential(msgspec.Struct, frozen=True):
    """An opened credential of the store, for the playbooks and pools that match one of the patterns `paths` and
    `pools`."""

    name: str
    kind: str
    fields: dict[str, Any]
    paths: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()

    def refusal(self, path: str, pool: str) -> str | None:
        if not allowed(self.paths, path):
            return f"may not be used by playbook {path!r}, only by {', '.join(self.paths)}"
        if not allowed(self.pools, pool):
            return f"may not be used in pool {pool!r}, only in {', '.join(self.pools)}"
        return None


def allowed(patterns: Sequence[str], name: str) -> bool:
    """Whether a name matches one of the patterns, with `*` and `?`; without patterns, every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


Fetch = Callable[[str], Awaitable[StoredCredential]]  # raises NoetlError or Failure if there is none


class Keychain:
    def __init__(
        self,
        entries: Mapping[str, Credential],
        fetch: Fetch,
        path: str,
        pool: str,
        *,
        environment: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.entries, self.path, self.pool = entries, path, pool
        self.redactor = redactor or Redactor()
        self._fetch = fetch
        self._environment = variables() if environment is None else environment
        self._resolved: dict[Hashable, Fields] = {}
        self._resolving: SharedTasks[Fields] = SharedTasks()

    async def credential(self, auth: str | Mapping[str, Any]) -> Fields:
        """The fields of an `auth` input: the name of an entry, a connection string, or a map of fields."""
        if isinstance(auth, str) and not is_dsn(auth):
            return await self.fields(auth)
        auth = {"dsn": auth} if isinstance(auth, str) else auth
        self._learn(auth, "auth")
        return dict(auth)

    async def fields(self, name: str) -> Fields:
        """The fields of an entry, with its kind as `kind`. Failure of kind `auth` if it cannot be resolved."""
        entry = self.entries.get(name)
        if entry is None:  # text that cannot be a name may be a secret
            entry_name = f"entry {name!r}" if name.isidentifier() else f"entry of that name ({len(name)} characters)"
            raise Failure("auth", f"the keychain has no {entry_name}: declare it in the playbook's `keychain`")
        fields = await self._once(("entry", name), lambda: self._entry(entry))
        self.redactor.names.add(_entry_key(name))
        if entry.kind != OAUTH2:
            return dict(fields)
        token = await access_token(f"keychain entry {name!r}", fields, self._taint)
        # The token replaces the client secret, which no tool needs.
        return {field: value for field, value in fields.items() if field != "client_secret"} | {"token": token}

    async def secret(
        self, provider: str, key: str, version: Version = None, map: Names | None = None, auth: str | None = None
    ) -> Fields:
        """The fields of a secret at a provider: those that `map` names, or all. Of a plain text, `value`."""
        where = f"secret {key!r} of {provider}"
        address = ("secret", provider, key, version, auth)
        fields = await self._once(address, lambda: self._secret(where, provider, key, version, auth))
        selected = _selected(where, fields, {field: field for field in (map or {}).values()})
        if wrong := "; ".join(faults("secret_manager", selected)):
            raise Failure("auth", f"{where} cannot be used: {wrong}")
        self._learn(selected, where)
        self.redactor.names.update(Handle(provider, key, field, version, auth).reference().key for field in selected)
        return dict(_selected(where, fields, map or {}))

    async def handles(
        self, provider: str, key: str, version: Version = None, map: Names | None = None, auth: str | None = None
    ) -> dict[str, Reference]:
        """Handles of the fields of an existing secret: those that `map` names, or its `value`."""
        names = map or {FIELD: FIELD}
        await self.secret(provider, key, version, names, auth)
        return {name: Handle(provider, key, field, version, auth).reference() for name, field in names.items()}

    async def learn(self) -> None:
        """Add the secrets of the playbook to the redactor that can be opened without a request to another server: a
        step may read back what another one has sent somewhere."""
        for name, entry in self.entries.items():
            if entry.provider in NEARBY:
                with suppress(Failure):  # reported where it is used
                    await self._once(("entry", name), lambda: self._entry(entry))  # noqa: B023

    async def learn_opened(self, handles: Sequence[str], entries: Sequence[str]) -> None:
        """Add the secrets to the redactor that other workers have opened for the execution, if they are allowed
        here."""
        opens: dict[str, Callable[[], Awaitable[Any]]]
        opens = {key: partial(open_handle, self, _reference_to(key)) for key in handles}
        opens |= {_entry_key(name): partial(self.fields, name) for name in entries}

        async def learn(key: str) -> None:
            try:
                await opens[key]()
            except Failure as failure:
                error = failure.outcome.error
                if error is not None and error.retryable:  # retried with the next lease
                    return
            self.redactor.names.add(key)

        await asyncio.gather(*map(learn, opens.keys() - self.redactor.names))

    async def _once(self, key: Hashable, resolve: Callable[[], Coroutine[Any, Any, Fields]]) -> Fields:
        """Resolve a key once; concurrent callers share the request. A failure is not cached."""
        if key not in self._resolved:
            self._resolved[key] = await self._resolving.do(key, resolve)
        return self._resolved[key]

    async def _entry(self, entry: Credential) -> Fields:
        where = f"keychain entry {entry.name!r}"
        if entry.provider is None or entry.provider == OWN:
            name = entry.credential or entry.key or entry.name
            stored = await self._stored(where, name)
            if entry.kind not in (stored.kind, "secret_manager"):
                raise Failure("auth", f"{where} is a {entry.kind}, but credential {name!r} is a {stored.kind}")
            fields = self._mapped(where, stored.fields, entry.map)
        elif entry.provider == "env" and entry.key is None:  # a variable for each field
            fields = {field: await self._text(where, "env", name, None, {}) for field, name in entry.map.items()}
        else:
            login: Fields = {}
            if entry.credential is not None:  # to sign in with at the provider
                login = (await self._stored(where, entry.credential)).fields
                self._learn(login, f"credential {entry.credential!r}")
            key = entry.key or entry.name
            parsed = fields_of(entry.kind, await self._text(where, entry.provider, key, None, login))
            if parsed is None:
                raise Failure("auth", f"{where}: {key!r} must be a JSON map with the fields of a {entry.kind}")
            fields = self._mapped(where, parsed, entry.map)
        if wrong := "; ".join(faults(entry.kind, fields)):
            raise Failure("auth", f"{where} cannot be used as {entry.kind}: {wrong}")
        self._learn(fields, where)
        return {"kind": entry.kind} | fields

    async def _secret(self, where: str, provider: str, key: str, version: Version, auth: str | None) -> Fields:
        if provider == OWN:
            return (await self._stored(where, key)).fields
        text = await self._text(where, provider, key, version, {} if auth is None else await self.fields(auth))
        return fields_of("secret_manager", text) or {}

    async def _text(self, where: str, provider: str, key: str, version: Version, login: Fields) -> str:
        text = await read(provider, ProviderRequest(where, key, version, login, self._environment, self._taint))
        if not text:
            raise Failure("auth", f"{where}: {key!r} is empty at {provider}")
        return text

    async def _stored(self, where: str, name: str) -> StoredCredential:
        try:
            stored = await self._fetch(name)
        except NoetlError as error:
            raise Failure("auth", f"{where}: {error}") from error
        if reason := stored.refusal(self.path, self.pool):
            raise Failure("auth", f"{where}: credential {name!r} {reason}")
        return stored

    def _learn(self, fields: Mapping[str, Any], where: str) -> None:
        for secret in secrets_in(fields):
            self._taint(secret, where)

    def _mapped(self, where: str, fields: Mapping[str, Any], names: Names) -> Fields:
        """The fields of an entry. A secret field stays secret under a new name that is not."""
        mapped = dict(_selected(where, fields, names))
        for secret in secrets_in({field: fields[field] for field in names.values()}):
            if len(secret.strip()) >= MIN_REDACTED:
                self._taint(secret, where)
        return mapped

    def _taint(self, secret: str, where: str) -> None:
        try:
            self.redactor.add(secret)
        except ValueError as error:
            raise Failure("auth", f"{where}: {error}") from error


def _entry_key(name: str) -> str:
    """The redactor's key of an entry; differs from every handle."""
    return f"{KEYCHAIN}.{name}"


async def open_handle(keychain: Keychain, reference: Reference) -> Any:
    handle = handle_of(reference)
    names = {FIELD: handle.field}
    return (await keychain.secret(handle.provider, handle.key, handle.version, names, handle.auth))[FIELD]


def _selected(where: str, fields: Mapping[str, Any], names: Names) -> Mapping[str, Any]:
    """The fields under the names of the map; all fields without one."""
    missing = [field for field in names.values() if field not in fields]
    if missing:
        raise Failure("not_found", f"{where} has no field {', '.join(map(repr, missing))}")
    return {name: fields[field] for name, field in names.items()} if names else fields


class KeychainFault(msgspec.Struct, frozen=True):
    """Why a keychain entry of a playbook cannot be opened. `missing` is the name of a credential that does not
    exist."""

    entry: str
    reason: str
    missing: str | None = None

    def __str__(self) -> str:
        return f"keychain entry {self.entry!r}: {self.reason}"


def keychain_faults(playbook: Playbook, stored: Mapping[str, SealedCredential]) -> list[KeychainFault]:
    """Faults of the keychain entries of a playbook, by the stored credentials; only workers can reach other
    providers."""
    pools = {playbook.executor.pool, *(str(step.spec["pool"]) for step in playbook.steps if "pool" in step.spec)}
    return [fault for entry in playbook.keychain for fault in _faults(entry, stored, playbook.path, pools)]


def _faults(
    entry: Credential, stored: Mapping[str, SealedCredential], path: str, pools: set[str]
) -> Iterator[KeychainFault]:
    fault = partial(KeychainFault, entry.name)
    if not is_known(entry.kind):
        yield fault(f"unknown credential kind {entry.kind!r}")
    if entry.provider not in (None, OWN, *PROVIDERS):
        yield fault(f"unknown provider {entry.provider!r}; the providers are {', '.join((OWN, *PROVIDERS))}")
    is_own = entry.provider in (None, OWN)
    name = entry.credential or ((entry.key or entry.name) if is_own else None)  # or that to sign in with at a provider
    if name is None:
        return
    credential = stored.get(name)
    if credential is None:
        kind = entry.kind if is_own else "secret_manager"
        remedy = f"create it with `noetl credential set {name} --kind {kind}`"
        yield fault(f"credential {name!r} not found: {remedy}", name)
        return
    if credential.kind == WEBHOOK:
        yield fault(f"credential {name!r} is the secret of a webhook: playbooks cannot use it")
        return
    if is_own and entry.kind not in (credential.kind, "secret_manager"):
        remedy = f"write `kind: {credential.kind}`, or run `noetl credential set {name} --kind {entry.kind}`"
        yield fault(f"it is a {entry.kind}, but credential {name!r} is a {credential.kind}: {remedy}")
    if not allowed(credential.paths, path):
        yield fault(f"credential {name!r} may not be used by playbook {path!r}, only by {', '.join(credential.paths)}")
    if not any(allowed(credential.pools, pool) for pool in pools):
        yield fault(f"credential {name!r} may only be used in pool {', '.join(credential.pools)}")
