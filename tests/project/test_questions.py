"""The places that answer the questions of ``questions.md`` are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUESTIONS = Path(__file__).with_name("questions.md").read_text()
PLACE = re.compile(r"`([\w./]+\.(?:py|md))`: `([^`]+)`")


def test_each_question_has_its_place() -> None:
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \| \d+ \|$", QUESTIONS, re.MULTILINE)
    assert len(rows) == 15
    for question, places in rows:
        found = PLACE.findall(places)
        assert found, question
        for path, name in found:
            text = (ROOT / path).read_text()
            heading = rf"^#+ {re.escape(name)}$"
            defined = rf"^ *(?:def|class) {re.escape(name)}\b|^{re.escape(name)}\b.*="
            assert re.search(heading if path.endswith(".md") else defined, text, re.MULTILINE), name
