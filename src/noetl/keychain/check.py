"""What a playbook needs of the keychain and will not get: asked when an execution is requested, before anything runs.

Only the store can be looked at here. What other providers have is known at the worker, and found out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.keychain.keychain import OWN
from noetl.keychain.kinds import WEBHOOK, is_known
from noetl.keychain.providers import PROVIDERS
from noetl.keychain.restrict import allowed
from noetl.model.playbook import Credential, Playbook
from noetl.store.ports import SealedCredential


def missing_entries(playbook: Playbook, stored: Mapping[str, SealedCredential]) -> list[str]:
    """What is wrong with the playbook's keychain, one line for each fault; `stored` are the credentials by name."""
    pools = {playbook.executor.pool, *(str(step.spec["pool"]) for step in playbook.steps if "pool" in step.spec)}
    return [
        f"keychain entry {entry.name!r}: {fault}"
        for entry in playbook.keychain
        for fault in _faults(entry, stored, playbook.path, pools)
    ]


def _faults(entry: Credential, stored: Mapping[str, SealedCredential], path: str, pools: set[str]) -> Iterator[str]:
    if not is_known(entry.kind):
        yield f"there is no kind of credential {entry.kind!r}"
    if entry.provider not in (None, OWN, *PROVIDERS):
        yield f"there is no provider {entry.provider!r}; there are {', '.join((OWN, *PROVIDERS))}"
    name = stored_name(entry)
    if name is None:
        return
    found = stored.get(name)
    if found is None:
        yield f"there is no credential {name!r}: `noetl credential set {name}` makes one"
        return
    if found.kind == WEBHOOK:
        yield f"credential {name!r} is the secret of a webhook: playbooks cannot use it"
        return
    if entry.provider in (None, OWN) and entry.kind not in (found.kind, "secret_manager"):
        yield f"it is a {entry.kind}, but credential {name!r} is a {found.kind}"
    if not allowed(found.paths, path):
        yield f"credential {name!r} may not be used by playbook {path!r}, only by {', '.join(found.paths)}"
    if not any(allowed(found.pools, pool) for pool in pools):
        yield f"credential {name!r} may only be used in pool {', '.join(found.pools)}"


def stored_name(entry: Credential) -> str | None:
    """The stored credential that an entry is, or signs in with at its provider; None if it needs none."""
    if entry.provider in (None, OWN):
        return entry.credential or entry.key or entry.name
    return entry.credential
