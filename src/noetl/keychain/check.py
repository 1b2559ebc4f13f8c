"""Checks the keychain of a playbook before an execution starts.

Only stored credentials are checked: only workers can reach other providers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.keychain.keychain import OWN, allowed
from noetl.keychain.kinds import WEBHOOK, is_known
from noetl.keychain.providers import PROVIDERS
from noetl.model.playbook import Credential, Playbook
from noetl.store.credentials import SealedCredential


def missing_entries(playbook: Playbook, stored: Mapping[str, SealedCredential]) -> list[str]:
    """Faults of the keychain entries of a playbook; `stored` has the credentials by name."""
    pools = {playbook.executor.pool, *(str(step.spec["pool"]) for step in playbook.steps if "pool" in step.spec)}
    return [
        f"keychain entry {entry.name!r}: {fault}"
        for entry in playbook.keychain
        for fault in _faults(entry, stored, playbook.path, pools)
    ]


def _faults(entry: Credential, stored: Mapping[str, SealedCredential], path: str, pools: set[str]) -> Iterator[str]:
    if not is_known(entry.kind):
        yield f"unknown credential kind {entry.kind!r}"
    if entry.provider not in (None, OWN, *PROVIDERS):
        yield f"unknown provider {entry.provider!r}; the providers are {', '.join((OWN, *PROVIDERS))}"
    is_own = entry.provider in (None, OWN)
    name = entry.credential or ((entry.key or entry.name) if is_own else None)  # or that to sign in with at a provider
    if name is None:
        return
    credential = stored.get(name)
    if credential is None:
        yield f"there is no credential {name!r}: create it with `noetl credential set {name}`"
        return
    if credential.kind == WEBHOOK:
        yield f"credential {name!r} is the secret of a webhook: playbooks cannot use it"
        return
    if is_own and entry.kind not in (credential.kind, "secret_manager"):
        yield f"it is a {entry.kind}, but credential {name!r} is a {credential.kind}"
    if not allowed(credential.paths, path):
        yield f"credential {name!r} may not be used by playbook {path!r}, only by {', '.join(credential.paths)}"
    if not any(allowed(credential.pools, pool) for pool in pools):
        yield f"credential {name!r} may only be used in pool {', '.join(credential.pools)}"
