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
    user = _number(int(text)) if text.isdecimal() else _named(text)
    if user.uid == 0:
        raise UsageError(f"--workers-user {text} is root, who can read everything; name an unprivileged user")
    return user


def _named(name: str) -> WorkersUser:
    try:
        return _of(pwd.getpwnam(name))
    except KeyError:
        raise UsageError(
            f"--workers-user: user {name!r} does not exist; create it with: useradd --system {name}"
        ) from None


def _number(uid: int) -> WorkersUser:
    """A user id needs no passwd entry: containers often have none. The group id is then the same number."""
    try:
        return _of(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        pass
    if not 0 <= uid < 2**32 - 1:
        raise UsageError(f"--workers-user: {uid} is not a valid user id")
    return WorkersUser(uid, uid, (), str(uid), "/")


def _of(entry: pwd.struct_passwd) -> WorkersUser:
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    home = entry.pw_dir
    at_home = os.path.isdir(home) and os.stat(home).st_uid == entry.pw_uid
    return WorkersUser(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, home if at_home else "/")
