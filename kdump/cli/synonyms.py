"""The words for a command that does not exist: the one that was probably meant."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from kdump.format.lines.shell import shell_text
from kdump.program import NAME, program

_CHECK: Final = "verify DIRECTORY"
_REPAIR: Final = "repair DIRECTORY"
#: Words of other tools for what a command of kdump does.
_SYNONYMS: Final = {
    "fsck": _CHECK,
    "audit": _CHECK,
    "inspect": _CHECK,
    "scan": _CHECK,
    "test": _CHECK,
    "validate": _CHECK,
    "doctor": _REPAIR,
    "fix": _REPAIR,
    "recover": _REPAIR,
    "cat": "dump FILE",
    "decode": "dump --decode FILE",
    "print": "dump FILE",
    "read": "dump FILE",
    "show": "dump FILE",
    "cut": "truncate-to-valid PARTITION",
    "truncate": "truncate-to-valid PARTITION",
    "index": "reindex PARTITION",
    "rebuild": "reindex PARTITION",
    "diff": "compare DIRECTORY...",
    "replicas": "compare DIRECTORY...",
    "offsets": "groups DIRECTORY...",
    "election": "quorum DIRECTORY...",
    "forecast": "next-start DIRECTORY",
    "start": "next-start DIRECTORY",
    "restore": "undo PARTITION",
    "revert": "undo PARTITION",
    "rollback": "undo PARTITION",
    "upgrade": "convert-v0-v2 PARTITION",
    "monitor": "scrub DIRECTORY",
    "watch": "scrub DIRECTORY",
}


def unknown_command_text(word: str, commands: Iterable[str]) -> str:
    """Return the error for ``word``, which is no command, with the one to run instead."""
    meant = _SYNONYMS.get(word.lower())
    if meant is None and (os.sep in word or os.path.lexists(word)):
        return f"Expected a command, found a path. Run: {shell_text([NAME, 'verify', word])}"
    if meant is None:
        close = get_close_matches(word.lower(), list(commands), n=1)
        meant = close[0] if close else "--help"
    return f"No such command '{word}'. Run: {program()} {meant}"
