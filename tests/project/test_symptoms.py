"""Each symptom in kdump-incident(7) begins with a line that people search for.

``kdump explain`` answers that line with the cure that the section has.
"""

from __future__ import annotations

import re
from io import BytesIO

import pytest

from kdump.commands.explain.broker_log.entries import read_entries
from kdump.commands.explain.broker_log.table import recognize
from support.documents import TEXTS

pytestmark = pytest.mark.once

SECTIONS = {
    text.partition("\n")[0]: text.partition("\n")[2].strip("\n")
    for text in re.split(r"^## ", TEXTS["kdump-incident"], flags=re.MULTILINE)[1:]
}
#: The sections of symptoms, and words of the cure that the section and the answer both have.
CURES = {
    "A replica stays out of the ISR": "write a record to the partition, or restart the leader",
    "The cluster id differs": "meta.properties",
    "The voter key of a controller differs": "kafka-metadata-quorum.sh",
    "The quorum has no leader": "kdump quorum",
    "The disk is full": "kdump space",
    "Recovery takes hours": "kdump next-start",
    "Groups have lost their offsets": "kdump groups",
    "The broker runs on Windows": "WSL 2",
    "The log directory is on NFS": "local disk",
}


def quoted(title: str) -> list[str]:
    """The lines that a section begins with."""
    found = re.match(r"```\n(.*?)\n```\n", SECTIONS[title], re.DOTALL)
    assert found is not None, title
    return found[1].split("\n")


LINES = [(title, line) for title in CURES for line in quoted(title)]


@pytest.mark.parametrize(("title", "line"), LINES)
def test_explain_answers_the_line_with_the_cure_of_its_section(title: str, line: str) -> None:
    assert_answered(title, line)


@pytest.mark.parametrize(
    ("title", "line"),
    # The loader's line is logged at each start: a report on a whole log leaves it out.
    [each for each in LINES if each[1][0] == "[" and not each[1].startswith("[MetadataLoader")],
)
def test_the_line_is_answered_as_the_log_has_it(title: str, line: str) -> None:
    level = "ERROR" if "Unexpected error" in line else "INFO"
    assert_answered(title, f"[2026-11-29 10:00:00,000] {level} {line}")


def assert_answered(title: str, line: str) -> None:
    (entry,) = read_entries(iter(BytesIO(f"{line}\n".encode()).readline, b""))
    found = recognize(entry.text)
    assert found is not None, line
    assert said(CURES[title]) in said(found.message.advice)
    assert said(CURES[title]) in said(SECTIONS[title])


def said(text: str) -> str:
    """The words of a text, however it is wrapped."""
    return " ".join(text.replace("`", "").lower().split())


def test_the_table_of_symptoms_leads_to_each_section() -> None:
    table = TEXTS["kdump-incident"].partition("| symptom |")[2].partition("\n\n")[0]
    assert {row.split(" | ")[-1].removesuffix(" |") for row in table.split("\n")[2:]} >= {*CURES}
