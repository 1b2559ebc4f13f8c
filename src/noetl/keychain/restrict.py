"""Restrictions of a credential: paths of playbooks and pools of workers, as patterns with `*` and `?`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def allowed(patterns: Sequence[str], name: str) -> bool:
    """Whether a name matches one of the patterns; without patterns, every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def refusal(paths: Sequence[str], pools: Sequence[str], path: str, pool: str) -> str | None:
    """Why a playbook in a pool may not use a credential with these restrictions; None if it may."""
    if not allowed(paths, path):
        return f"may not be used by playbook {path!r}, only by {', '.join(paths)}"
    if not allowed(pools, pool):
        return f"may not be used in pool {pool!r}, only in {', '.join(pools)}"
    return None
