"""Where the command begins: nothing heavy is imported before the garbage collector is off.

Starting makes many objects and no garbage; to look for some would take a twentieth of the time that people wait.
Verbs that stay, such as `run`, switch it on again.
"""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line."""
    gc.disable()
    from noetl.cli.main import main as run

    run()
