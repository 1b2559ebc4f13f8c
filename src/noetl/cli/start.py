"""Entry point of the command: nothing heavy is imported before the garbage collector is off.

Imports create many objects and no garbage; collecting it would take a twentieth of the start-up time. Verbs that run
for long call `collect_garbage`.
"""

from __future__ import annotations

import gc


def main() -> None:
    gc.disable()
    from noetl.cli.main import main as run

    run()


def collect_garbage() -> None:
    """Turn the garbage collector on; it skips the objects that exist already."""
    gc.freeze()
    gc.enable()
