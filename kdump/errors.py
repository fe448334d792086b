"""The errors that kdump raises on purpose: what was expected, what was found, where, and what to
do.

Damage in a log is data (``Damage``, ``Finding``), never an exception. These are for what cannot be
read at all. This module imports nothing of kdump.
"""

from __future__ import annotations

from os import PathLike
from typing import Final


class KdumpError(Exception):
    """Base of all errors below. ``str(error)`` is one sentence for the person at the shell."""


class DecodeError(KdumpError):
    """Bytes that do not follow their format."""


class CutError(DecodeError):
    """A run of messages that ends inside one: what is in front of it was read."""


class LimitError(KdumpError):
    """A bound of kdump's own was reached, such as the largest decompressed batch.

    It says nothing about the bytes: beyond the limit they have not been judged.
    """


class UsageError(KdumpError):
    """The caller asked for something that cannot be done as asked."""


class SourceError(KdumpError):
    """A file or directory could not be read; ``path`` is its name as it was typed."""

    def __init__(self, path: str | PathLike[str], message: str) -> None:
        super().__init__(message)
        self.path = str(path)

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str]]:
        # Workers send errors to their parent by pickle, which would give __init__ one argument.
        return type(self), (self.path, str(self))


class VanishedError(SourceError):
    """A file is gone, or has become shorter than it was when it was opened."""


class DeniedError(SourceError):
    """A file of somebody else, which this process may not read: its owner can."""


class ForeignDirectoryError(SourceError):
    """A directory that holds none of a broker's files."""


class ForeignFileError(SourceError):
    """A file of a name that no broker gives to files, or a path below a file."""


_FILE: Final = "a file"


class MissingDirectoryError(SourceError):
    """A log directory that a broker's configuration names, and in whose place ``found`` is."""

    def __init__(self, path: str | PathLike[str], found: str) -> None:
        expected = "the log directory that the configuration names"
        super().__init__(path, f"{path}: expected {expected}, found {found}")
        self.found = found

    @classmethod
    def file(cls, path: str | PathLike[str]) -> MissingDirectoryError:
        """Return the error for a file in its place."""
        return cls(path, _FILE)

    @property
    def is_file(self) -> bool:
        """Whether a file is in its place."""
        return self.found == _FILE

    def __reduce__(self) -> tuple[type[MissingDirectoryError], tuple[str, str]]:
        return type(self), (self.path, self.found)


class StateError(KdumpError):
    """The state file of a scrub cannot be read or written; nothing that it holds was changed."""


class Refused(KdumpError):
    """A command was refused, and nothing was changed."""


class Unfinished(KdumpError):
    """A command was interrupted after its first change; ``resume`` is the command that goes on."""

    def __init__(self, message: str, resume: tuple[str, ...]) -> None:
        super().__init__(message)
        self.resume = resume
