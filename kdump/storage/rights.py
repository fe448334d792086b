"""File work with the effective ids of a directory's owner.

A repair can do no more than the owner of what it changes could: what he has put in its way, a link
into another directory above all, leads no further than he comes himself.

Spec: ``credentials(7)``. Effective ids are those of the process, all threads alike; forked workers
inherit them. Where the process is not root it must never change them.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kdump.errors import Refused


@dataclass(frozen=True, slots=True)
class Rights:
    """A user, his group, and all his groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]

    @classmethod
    def of_owner(cls, status: os.stat_result) -> Rights:
        """Those of who owns a file; a user without an entry in passwd has the file's group."""
        try:
            entry = pwd.getpwuid(status.st_uid)
        except KeyError:
            return cls(status.st_uid, status.st_gid, (status.st_gid,))
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        return cls(entry.pw_uid, entry.pw_gid, tuple(groups))

    @classmethod
    def current(cls) -> Rights:
        """Those of this process now."""
        return cls(os.geteuid(), os.getegid(), tuple(os.getgroups()))


ROOT: Final = Rights(0, 0, (0,))
#: Whether this process is root that acts as another user.
_away = False


def is_root() -> bool:
    """Whether this process may take the rights of any user."""
    return _away or os.geteuid() == 0


@contextmanager
def acting(rights: Rights | None) -> Iterator[None]:
    """Have these rights, if this process is root; None for those that it has.

    Raises Refused where they cannot be had.
    """
    global _away
    before, away = Rights.current(), _away
    if rights is None or rights.uid == before.uid or not is_root():
        yield
        return
    _away = True
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
        _away = away


def _become(rights: Rights) -> None:
    os.seteuid(0)
    os.setgroups(rights.groups)
    os.setegid(rights.gid)
    os.seteuid(rights.uid)
