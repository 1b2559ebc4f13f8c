"""`--workers-user`: whom the workers of a server run as, so that code of tasks can not read what is the server's."""

from __future__ import annotations

import os
import pwd
from typing import NamedTuple

from noetl.errors import UsageError

HELP = (
    "The user its workers run as, by name or number; needs root. Code of tasks then can't read the database and keys."
)


class WorkersUser(NamedTuple):
    """A user of this machine."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    """Where workers start; `/` if the user has no home."""


def workers_user(text: str) -> WorkersUser:
    """The user that a name or number means. UsageError where workers can't become that user."""
    if os.geteuid() != 0:
        raise UsageError(
            f"--workers-user {text} needs root: only root can start processes of another user. Start the server as "
            f"root, or start workers as that user yourself (noetl worker)"
        )
    user = _number(int(text)) if text.isdecimal() else _named(text)
    if user.uid == 0:
        raise UsageError(f"--workers-user {text} is root, who can read everything; name a user without rights")
    return user


def _named(name: str) -> WorkersUser:
    try:
        return _of(pwd.getpwnam(name))
    except KeyError:
        raise UsageError(
            f"--workers-user: this machine has no user {name!r}; make one (useradd --system {name})"
        ) from None


def _number(uid: int) -> WorkersUser:
    """A number needs no entry in the list of users: containers often have none. Its group has the same number."""
    try:
        return _of(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        pass
    if not 0 <= uid < 2**32 - 1:
        raise UsageError(f"--workers-user: {uid} can't be the number of a user")
    return WorkersUser(uid, uid, (), str(uid), "/")


def _of(entry: pwd.struct_passwd) -> WorkersUser:
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    home = entry.pw_dir
    at_home = os.path.isdir(home) and os.stat(home).st_uid == entry.pw_uid
    return WorkersUser(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, home if at_home else "/")
