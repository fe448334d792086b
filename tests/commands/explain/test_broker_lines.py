"""Lines that people posted, and lines with the wording of jars and clients: is their answer right?

Each line has its source, the release where it is known, and the answer that Kafka's sources give:
the cause (subject, findings, words that the answer must have), the place, and the next step.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pytest

from commands.explain.broker_messages import LINES
from kdump.commands.explain.broker_log.entries import read_entries
from kdump.commands.explain.broker_log.report import LogReport, group_entries
from kdump.commands.explain.broker_log.table import _KEPT, _TABLE, MESSAGES, _Memory, recognize
from kdump.commands.explain.text import json_lines

STORED = Path(__file__).parent / "broker_lines"
#: The least number of lines whose answer is right in cause, in place, in the next step, in all.
FLOOR = (350, 350, 350, 350)


@dataclass(frozen=True)
class Line:
    """An excerpt of a log and its right answer.

    ``codes`` holds the findings of which one must come first; none may be named if it is empty.
    ``says`` and ``do`` are expressions that the answer and its advice must match. ``next`` is the
    command that the answer ends with, "" for none.
    """

    source: str
    release: str
    text: str
    about: str
    codes: tuple[str, ...] = ()
    says: str = ""
    path: str | None = None
    partition: str | None = None
    do: str = ""
    next: str = ""
    file: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}: {self.text.strip()[:90]}"


def _read() -> Iterator[Line]:
    for path in sorted(STORED.glob("*.toml")):
        for row in tomllib.loads(path.read_text())["line"]:
            row["codes"] = tuple(row.get("codes", ()))
            yield Line(**row, file=path.stem)


ALL = tuple(_read())


def explained(text: str) -> LogReport:
    lines = iter(BytesIO(text.strip("\n").encode()).readline, b"")
    return group_entries(read_entries(lines))


def right(line: Line) -> tuple[bool, bool, bool]:
    """Return whether cause, place and next step of the answer to ``line`` are right."""
    rows = [json.loads(row) for row in json_lines(explained(line.text), None)]
    messages = [row for row in rows if row["type"] == "message"]
    answers = [row for row in messages if row["about"] == "disk"] or [
        row for row in messages if row["about"] == line.about
    ]
    if not answers:
        return False, False, False
    answer = answers[0]
    words = f"{answer['happened']} {answer['advice']}"
    codes = answer["codes"]
    cause = (
        answer["about"] == line.about
        and (codes[0] in line.codes if codes else not line.codes)
        and re.search(line.says, words, re.IGNORECASE) is not None
    )
    place = (answer["path"], answer["partition"]) == (line.path, line.partition)
    remedy = " ".join(answer["remedy"] or ())
    step = remedy == line.next and re.search(line.do, answer["advice"] or "") is not None
    return cause, place, step


def test_there_are_two_hundred_lines_each_with_its_source() -> None:
    assert len(ALL) >= 200
    assert len({line.text for line in ALL}) == len(ALL)
    for line in ALL:
        assert line.source, line
        assert line.about in ("disk", "consequence", "note", "elsewhere"), line


def test_most_answers_are_right_in_cause_place_and_next_step() -> None:
    found = {line: right(line) for line in ALL}
    counts = tuple(sum(answer[part] for answer in found.values()) for part in range(3))
    whole = sum(all(answer) for answer in found.values())
    wrong = [f"{answer} {line}" for line, answer in found.items() if not all(answer)]
    enough = [count >= floor for count, floor in zip((*counts, whole), FLOOR, strict=True)]
    assert all(enough), "\n".join(map(str, [(*counts, whole), *wrong]))


def test_a_search_finds_what_a_look_at_every_row_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, letters and answers that are remembered change no answer."""
    lines = [line.text for line in ALL] + [row[0] for row in LINES]
    looked = {}
    for text in lines:
        found = [(number, row.match(text)) for number, row in enumerate(_TABLE.rows)]
        matches = [number for number, match in found if match is not None]
        usual = [number for number in matches if number < len(MESSAGES)]
        looked[text] = usual or matches[:1]
    for _ in range(2):
        assert {text: [number for number, _ in _TABLE.search(text)] for text in lines} == looked
    answers = [recognize(text) for text in lines]
    monkeypatch.setattr("kdump.commands.explain.broker_log.table._KEPT", 1)
    assert [recognize(text) for text in reversed(lines)] == answers[::-1]


def test_names_of_topics_do_not_make_a_search_remember_without_end() -> None:
    for number in range(10_000):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        assert recognize(f"Error for partition {name}-1 at offset 7 x.CorruptRecordException")
    sizes = [len(value) for value in vars(_TABLE).values() if isinstance(value, _Memory)]
    assert len(sizes) == 2 and max(sizes) <= _KEPT
