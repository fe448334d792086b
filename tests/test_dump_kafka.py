"""``kdump dump`` beside Kafka's own dump tool of 4.3.1, line for line, on every fixture."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from brokers.oracle import Oracle
from fixtures_loader import FIXTURES

from kdump.cli.main import main
from kdump.format.text import printable

pytestmark = pytest.mark.broker

#: Kafka prints line breaks inside keys and values raw, so only these begin a line of its own.
LINE_START = re.compile(
    r"\n(?=baseOffset: \d|\| offset: \d|Dumping /|Log starting offset: |Snapshot end |Found \d|\Z)"
)


def escaped(kafka: str) -> str:
    """The one difference: what could upset a terminal leaves kdump escaped, and Kafka raw."""
    return "\n".join(map(printable, LINE_START.split(kafka)))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], []),
        (["--records"], ["--deep-iteration"]),
        (["--data"], ["--print-data-log"]),
    ],
)
@pytest.mark.parametrize("name", FIXTURES)
def test_text_equals_that_of_kafkas_tool(
    name: str,
    ours: list[str],
    theirs: list[str],
    oracle: Callable[[str], Oracle],
    grown: Callable[[str], Path],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    directory = grown(name)
    files = sorted([*directory.glob("*-*/*.log"), *directory.glob("*-*/*.checkpoint")])
    # Kafka's tool ends with an exception at the zeros of a preallocated file.
    files = [path for path in files if "killed" not in name or "preallocated-" not in str(path)]
    assert len(files) > 30
    main(["dump", *ours, *map(str, files)])
    found = capfdbinary.readouterr().out.decode()
    stdout, _ = oracle("4.3.1").dump("--files", ",".join(map(str, files)), *theirs)
    assert found.splitlines() == escaped(stdout.decode()).splitlines()
    assert found.count("isvalid: true") > 300
