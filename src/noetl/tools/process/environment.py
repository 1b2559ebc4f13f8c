"""Environment variables that child processes inherit, and the start of Python processes with only those.

All other variables of this process may contain secrets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from socket import socket

    Channel = socket | Connection

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that every program gets."""
INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR")
"""Variables that Python needs to start, to find modules and to create temporary files."""


def inherited(*more: str) -> dict[str, str]:
    """The inherited variables and the named ones, as far as this process has them."""
    return {name: value for name in (*INHERITED, *more) if (value := os.environ.get(name)) is not None}


def start_python(arguments: list[str], ours: Channel, theirs: Channel) -> subprocess.Popen[bytes]:
    """Start a Python process in a session of its own. Its last argument is the file number of `theirs`, which is closed
    here; if the start fails, `ours` is closed as well."""
    try:
        return subprocess.Popen(
            [sys.executable, "-P", *arguments, str(theirs.fileno())],
            env=inherited(*INTERPRETER),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
