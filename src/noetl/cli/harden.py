"""What a server or worker does so that code of tasks, which runs below it as the same user, does not find its secrets.

- Its environment has the master key, passwords and tokens, and `/proc/PID/environ` shows an environment as the process
  got it. `blank_environment` overwrites the values there; Python keeps its own copy in `os.environ`.
- Another process of the same user can read its memory. A process that is not dumpable is closed to them, `/proc/PID`
  included. Programs that it starts are dumpable again, and have none of its secrets.
- A core dump would have all of it in a file.

None of this stops root, and none of it closes files: who has the same user reads the same files. `--workers-user` gives
workers another one.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

OWN = b"NOETL_"
PR_SET_DUMPABLE = 4


def harden() -> None:
    """Close this process to others of the same user. Call it after the last NOETL_ variable was set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return  # there is no /proc to close
    blank_environment()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_DUMPABLE): {os.strerror(number)}")


def blank_environment() -> None:
    """Overwrite the values of NOETL_ variables where the system keeps them. `os.environ` still has them."""
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    place = 0
    while strings and (address := strings[place]) is not None:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name.startswith(OWN):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        place += 1
