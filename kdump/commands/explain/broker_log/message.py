"""Message: a pattern of logged text, and the answer to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final

from kdump.audit.finding_code import FindingCode


class Subject(Enum):
    """The subject of a message."""

    DISK = "disk"  # a problem of the data on a disk, or of the disk
    CONSEQUENCE = "consequence"  # follows from an earlier line
    NOTE = "note"  # normal running, or a repair that costs nothing
    ELSEWHERE = "elsewhere"  # does not concern log directories


class FollowUp(Enum):
    """The command that follows a message about a disk."""

    VERIFY = "verify"  # of the partition, or else of the log directory
    SPACE = "space"  # what a broker removes, and whether startup finds enough space
    START = "start"  # all reasons for which the next start fails


#: The expressions of pattern fields. If two fields are in one word, the text between them ends
#: the first. Brokers before 1.0 and clients write partitions in other forms.
_FIELDS: Final = {
    "": ".*?",
    "path": r"(?P<path>[^\n]*?)",
    "dir": r"(?P<dir>[^\n]*?)",
    "entry": r"(?P<entry>[^\n]*?)",
    "moved": r"(?P<path>/[^\n]*?\.[0-9a-f]{32}-(?:delete|future)[^\s:,]*)",
    "drive": r"(?P<drive>[A-Za-z]:\\)",
    "second": r"(?P<second>[^\n]*?)",
    "partition": r"(?P<partition>[\w.\-]+-\d+|\[[\w.\-]+,\d+\]"
    r"|TopicPartition\(topic=u?'[\w.\-]+', partition=\d+\))",
    "topic": r"(?P<topic>[\w.\-]+)",
    "number": r"(?P<number>\d+)",
    "offset": r"(?P<offset>-?\d+)",
    "position": r"(?P<position>\d+)",
    "value": r"(?P<value>-?\d+)",
}
#: Fields that hold a path.
_PATHS: Final = frozenset({"path", "dir", "entry", "second"})
#: Those of fields that begin a pattern. A search begins where they can, not at each character.
_FIRST_FIELDS: Final = {
    **_FIELDS,
    "": r"(?m:^).*?",
    "topic": rf"(?<![\w.\-]){_FIELDS['topic']}",
    **{name: rf"(?P<{name}>(?:[A-Za-z]:\\|/)[^\n]*?)" for name in _PATHS},
}
#: A path that is the last field. A path that has spaces ends before the logger, or it is that of a
#: file of Kafka's. Otherwise a path ends before a space or the end of a sentence.
_STOPS: Final = (
    r",\s(?!/)|[:;.!]\s|(?<!,)\s/|\s(?:due to |in dir |with uuid |at [\w.$]+\(|[\[({'\"])"
)
_SPACED: Final = rf"/(?:(?!{_STOPS})[^\n'\"])*?"
#: The same before what cannot begin within a run of other characters: a run is passed over at once.
_ENDED: Final = rf"/(?:[^\s,:;.!'\"]++|(?!{_STOPS})(?:[^\S\n]|[,:;.!]))*?"
_LAST_PATH: Final = (
    rf"{_ENDED}(?=\.{{0,2}}(?:\n|$|\s\((?:[\w$]+\.)+[\w$]+\)(?:\s|$)))"
    rf"|{_SPACED}(?:-checkpoint|meta\.properties|partition\.metadata|quorum-state|/\d{{20}}\.\w+)"
    r"(?=[.,:;!)\]]?(?:\s|$))"
    r"|[^\s,'\"]*[^\s,'\".:;!)\]]"
)
_FIELD: Final = re.compile(r"\{(\w*)\}")
#: A word between two characters of a literal that are not part of words. Every text that contains
#: the literal contains it as a whole word, both without their digits.
_WHOLE_WORD: Final = re.compile(r"(?<=\W)\w{3,}(?=\W)")


def _words(literals: list[str]) -> set[str]:
    return {word for part in literals for word in _WHOLE_WORD.findall(part)}


@dataclass(frozen=True)
class BrokerMessage:
    """A line that a broker logs, and the answer to it.

    In ``pattern``, ``{path}``, ``{dir}`` (a log directory), ``{entry}`` (of a log directory),
    ``{second}`` (another copy of ``{path}``), ``{moved}`` (the path of a directory that the broker
    renamed, or of a file in it), ``{drive}`` (of Windows), ``{partition}``, ``{topic}`` with
    ``{number}``, ``{offset}``, ``{position}`` and ``{}`` vary. All ``{value}`` are the same
    number.

    If a pattern has no whole word of three letters within its text, those at its ends are whole
    words of a line, unless a field is there. The name of an exception at its end always is one.

    ``happened`` describes the event that the line reports, ``advice`` the action to take. ``codes``
    are the findings that lead to the line, ``kind`` is its subject: most concern a disk. ``quoted``
    says that the entries of the codes in ``kdump explain`` and in the manual quote the line, but
    for those of ``unquoted``. ``outer`` marks a message to which another message of the same entry
    is preferred, ``decides`` one that is preferred to all others. ``everywhere`` marks a message
    that is logged for each partition. ``step`` is the command that follows.
    """

    pattern: str
    happened: str
    advice: str
    codes: tuple[FindingCode, ...] = ()
    kind: Subject = Subject.DISK
    outer: bool = False
    everywhere: bool = False
    decides: bool = False
    step: FollowUp = FollowUp.VERIFY
    quoted: bool = False
    unquoted: tuple[FindingCode, ...] = ()
    answer: tuple[str, str] = field(init=False, repr=False)
    literals: tuple[str, ...] = field(init=False, repr=False)
    words: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Groups of entries are told apart by it. An enumeration takes long to hash.
        object.__setattr__(self, "answer", (self.happened, self.kind.value))
        literals = _FIELD.split(self.pattern)[0::2]
        by_length = sorted(literals, key=len, reverse=True)
        object.__setattr__(self, "literals", tuple(filter(None, by_length)))
        letters = [re.sub(r"\d", "", part) for part in literals]
        if letters[-1].endswith("Exception"):
            letters[-1] += " "
        words = _words(letters)
        if not words:
            letters[0] = f" {letters[0]}"
            letters[-1] = f"{letters[-1]} "
            words = _words(letters)
        object.__setattr__(self, "words", frozenset(words))

    def is_quoted_by(self, code: FindingCode) -> bool:
        """Return whether the entry of ``code`` quotes the line."""
        return self.quoted and code in self.codes and code not in self.unquoted

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern as a regular expression, compiled where a line may match it."""
        parts = _FIELD.split(self.pattern)
        literals, names = parts[0::2], parts[1::2]
        pieces = [re.escape(literals[0])]
        for index, (name, literal) in enumerate(zip(names, literals[1:], strict=True)):
            last = index == len(names) - 1 and not literal
            if index == 0 and not literals[0]:
                pieces.append(_FIRST_FIELDS[name] + re.escape(literal))
            elif last and name in _PATHS:
                pieces.append(rf"(?P<{name}>{_LAST_PATH})")
            elif last and not name:
                continue
            elif name == "value" and name in names[:index]:
                pieces.append(r"(?P=value)(?!\d)" + re.escape(literal))
            else:
                pieces.append(_FIELDS[name] + re.escape(literal))
        return re.compile("".join(pieces))

    def match(self, text: str) -> re.Match[str] | None:
        """Return the first match of this message in ``text``; None without one."""
        return self.expression.search(text) if self.literals[0] in text else None


def answer_alike(
    happened: str,
    advice: str,
    patterns: tuple[str, ...],
    codes: tuple[FindingCode, ...] = (),
    kind: Subject = Subject.DISK,
    outer: bool = False,
    decides: bool = False,
    step: FollowUp = FollowUp.VERIFY,
    quoted: tuple[str, ...] = (),
    unquoted: tuple[FindingCode, ...] = (),
) -> tuple[BrokerMessage, ...]:
    """Return a message for each pattern, all with the same answer.

    ``quoted`` are the patterns that the entries of ``codes`` quote, ``patterns`` the others.
    """
    row = BrokerMessage("", happened, advice, codes, kind, outer, False, decides, step)
    shown = (replace(row, pattern=pattern, quoted=True, unquoted=unquoted) for pattern in quoted)
    return (*shown, *(replace(row, pattern=pattern) for pattern in patterns))
