"""Environment variables that task code inherits from the worker. All others may contain secrets."""

from __future__ import annotations

import os

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that every program gets."""
INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR")
"""Variables that Python needs to start, to find modules and to create temporary files."""


def passed_on(*more: str) -> dict[str, str]:
    """The inherited variables and the named ones, as far as the worker has them."""
    return {name: value for name in (*PASSED_ON, *more) if (value := os.environ.get(name)) is not None}
