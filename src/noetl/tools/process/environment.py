"""Which variables of the worker reach code of a task. All others may hold secrets."""

from __future__ import annotations

import os

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that every program gets."""
INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR")
"""What Python itself may need to start, to find modules and to make temporary files."""


def passed_on(*more: str) -> dict[str, str]:
    """The variables that code gets, and others by name, as far as the worker has them."""
    return {name: value for name in (*PASSED_ON, *more) if (value := os.environ.get(name)) is not None}
