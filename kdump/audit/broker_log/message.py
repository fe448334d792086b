"""Message: a pattern of logged text, and the answer to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kdump.audit.codes import FindingCode


class Kind(Enum):
    """The subject of a message."""

    DISK = "disk"  # a problem of the data on a disk, or of the disk
    CONSEQUENCE = "consequence"  # follows from an earlier line
    NOTE = "note"  # normal running, or a repair that costs nothing
    ELSEWHERE = "elsewhere"  # does not concern log directories


#: The expressions of pattern fields. If two fields are in one word, the text between them ends
#: the first.
_FIELDS: Final = {
    "": ".*?",
    "path": r"(?P<path>[^\n]*?)",
    "partition": r"(?P<partition>[\w.\-]+-\d+)",
    "offset": r"(?P<offset>-?\d+)",
    "position": r"(?P<position>\d+)",
}
_FIELD: Final = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True)
class Message:
    """A line that a broker logs, and the answer to it.

    In ``pattern``, ``{path}``, ``{partition}``, ``{offset}``, ``{position}`` and ``{}`` vary.

    ``happened`` describes the event that the line reports, ``advice`` the action to take. ``codes``
    are the findings that lead to the line. ``outer`` marks a message to which another message of
    the same entry is preferred. ``everywhere`` marks a message that is logged for each partition.
    """

    pattern: str
    kind: Kind
    happened: str
    advice: str
    codes: tuple[FindingCode, ...] = ()
    outer: bool = False
    everywhere: bool = False
    literal: str = field(init=False)
    expression: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = _FIELD.split(self.pattern)
        literals, names = parts[0::2], parts[1::2]
        pieces = [re.escape(literals[0])]
        for index, (name, literal) in enumerate(zip(names, literals[1:], strict=True)):
            last = index == len(names) - 1 and not literal
            if last and name in ("", "path"):
                pieces.append(r"(?P<path>[^\s,'\"]*[^\s,'\".)\]])" if name else "")
            else:
                pieces.append(_FIELDS[name] + re.escape(literal))
        object.__setattr__(self, "literal", max(literals, key=len))
        object.__setattr__(self, "expression", re.compile("".join(pieces)))

    def match(self, text: str) -> re.Match[str] | None:
        """Return the first match of this message in ``text``; None without one."""
        return self.expression.search(text) if self.literal in text else None


def answer_alike(
    kind: Kind,
    happened: str,
    advice: str,
    patterns: tuple[str, ...],
    codes: tuple[FindingCode, ...] = (),
    outer: bool = False,
) -> tuple[Message, ...]:
    """Return a message for each of ``patterns``, all with the same answer."""
    return tuple(Message(pattern, kind, happened, advice, codes, outer) for pattern in patterns)
