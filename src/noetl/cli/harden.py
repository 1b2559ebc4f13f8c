"""Protects the secrets of a server or worker from task code, which runs as a child process of the same user.

- The environment contains the master key, passwords and tokens, and `/proc/PID/environ` shows the initial environment.
  `blank_environment` overwrites the values there; Python keeps its own copy in `os.environ`.
- Other processes of the same user can read the memory of a process and its `/proc/PID`, unless it is not dumpable.
  Child programs are dumpable again, and have none of its secrets.
- A core dump would write all secrets to a file, so core dumps are disabled.

None of this restricts root, and none of it protects files: processes of one user can read the same files. With
`--workers-user`, workers run as another user.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

OWN = b"NOETL_"
PR_SET_DUMPABLE = 4


def harden() -> None:
    """Protect this process from others of the same user. Call it after the last NOETL_ variable is set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return  # there is no /proc to close
    blank_environment()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_DUMPABLE): {os.strerror(number)}")


def blank_environment() -> None:
    """Overwrite the values of NOETL_ variables in `/proc/PID/environ`. `os.environ` still has them."""
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    place = 0
    while strings and (address := strings[place]) is not None:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name.startswith(OWN):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        place += 1
