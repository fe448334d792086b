"""File work with the effective ids of a directory's owner.

A repair with these ids can change only what the owner of the directory can change. A link that the
owner has put into the directory gives a repair no access to files of other users.

Spec: ``credentials(7)``. Effective ids belong to the process, with all its threads; forked workers
inherit them. Only a process of root changes them.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kdump.errors import Refused
from kdump.values import frozen


@frozen
class Rights:
    """The effective ids of a user: user, group and supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]

    @classmethod
    def of_owner(cls, status: os.stat_result) -> Rights:
        """Return the ids of the owner of a file; a user without a passwd entry gets its group."""
        try:
            entry = pwd.getpwuid(status.st_uid)
        except KeyError:
            return cls(status.st_uid, status.st_gid, (status.st_gid,))
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        return cls(entry.pw_uid, entry.pw_gid, tuple(groups))

    def allow(self, status: os.stat_result, access: int) -> bool:
        """Return whether a file's mode allows ``access``: a sum of ``os.R_OK`` and its like."""
        if status.st_uid == self.uid:
            allowed = status.st_mode >> 6
        elif status.st_gid == self.gid or status.st_gid in self.groups:
            allowed = status.st_mode >> 3
        else:
            allowed = status.st_mode
        return allowed & access == access

    @classmethod
    def current(cls) -> Rights:
        """Return the current effective ids of this process."""
        return cls(os.geteuid(), os.getegid(), tuple(os.getgroups()))


ROOT: Final = Rights(0, 0, (0,))
#: Whether this process is root and has the effective ids of another user.
_switched = False


def is_root() -> bool:
    """Return whether this process may take the effective ids of any user."""
    return _switched or os.geteuid() == 0


@contextmanager
def acting(rights: Rights | None) -> Iterator[None]:
    """Take the effective ids ``rights`` while the context lasts, if this process is root.

    None changes nothing. Raises Refused if the kernel denies the ids.
    """
    global _switched
    before, switched = Rights.current(), _switched
    if rights is None or rights.uid == before.uid or not is_root():
        yield
        return
    _switched = True
    try:
        try:
            _become(rights)
        except OSError as error:
            raise Refused(
                f"expected to get the rights of user {rights.uid}, found: {error.strerror}: run "
                "as that user"
            ) from error
        yield
    finally:
        _become(before)
        _switched = switched


def _become(rights: Rights) -> None:
    os.seteuid(0)
    os.setgroups(rights.groups)
    os.setegid(rights.gid)
    os.seteuid(rights.uid)
