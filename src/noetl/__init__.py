"""noetl: playbooks in YAML, run durably. See README.md for a start and CONTRIBUTING.md for a map of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["NoetlError", "Playbook", "PlaybookInvalid", "Problem", "__version__", "load_playbook"]

if TYPE_CHECKING:
    from noetl.dsl.problem import Problem
    from noetl.errors import NoetlError, PlaybookInvalid
    from noetl.files import load_playbook
    from noetl.model.playbook import Playbook

_HOMES = {
    "NoetlError": "noetl.errors",
    "Playbook": "noetl.model.playbook",
    "PlaybookInvalid": "noetl.errors",
    "Problem": "noetl.dsl.problem",
    "load_playbook": "noetl.files",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import noetl` is fast."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noetl' has no attribute {name!r}")
