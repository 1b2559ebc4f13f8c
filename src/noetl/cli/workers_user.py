"""`--workers-user`: the user of a server's workers, so that task code cannot read the files of the server."""

from __future__ import annotations

import os
import pwd
from typing import NamedTuple

from noetl.errors import UsageError

HELP = "User name or id of the workers; needs root. Task code can then read neither the database nor the keys."


class WorkersUser(NamedTuple):
    """A user of this machine."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    """Working directory of the workers; `/` if the user has no home."""


def workers_user(text: str) -> WorkersUser:
    """The user with a name or id. UsageError if workers cannot run as that user."""
    if os.geteuid() != 0:
        raise UsageError(
            f"--workers-user {text} needs root: only root can start processes as another user. Start the server as "
            f"root, or run `noetl worker` as that user yourself"
        )
    try:
        entry = pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
    except (KeyError, OverflowError):
        user = _without_entry(text)
    else:
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        at_home = os.path.isdir(entry.pw_dir) and os.stat(entry.pw_dir).st_uid == entry.pw_uid
        user = WorkersUser(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, entry.pw_dir if at_home else "/")
    if user.uid == 0:
        raise UsageError(f"--workers-user {text} is root, who can read everything; name an unprivileged user")
    return user


def _without_entry(text: str) -> WorkersUser:
    """A user id needs no passwd entry: containers often have none. The group id is then the same number."""
    if not text.isdecimal():
        raise UsageError(f"--workers-user: user {text!r} does not exist; create it with: useradd --system {text}")
    uid = int(text)
    if uid >= 2**32 - 1:
        raise UsageError(f"--workers-user: {uid} is not a valid user id")
    return WorkersUser(uid, uid, (), str(uid), "/")
