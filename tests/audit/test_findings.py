"""The table of finding codes is whole and consistent, and findings can be sent and sorted."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from kdump.audit import codes
from kdump.audit.codes import CODES, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command

EACH = pytest.mark.parametrize("code", CODES.values(), ids=CODES)

#: As brokers and clients of 3.9 to 4.3 log them.
LINES = {
    "[2026-11-21 10:00:00,000] WARN [LogLoader partition=a-0, dir=/d] Corruption found in segment "
    "100, truncating to offset 115 (org.apache.kafka.storage.internals.log.LogLoader)": {
        "batch-crc-mismatch",
        "batch-size-impossible",
        "preallocated-tail",
        "preallocated-tail-sealed",
        "torn-tail",
        "torn-tail-sealed",
    },
    "org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt (stored crc = "
    "2978725665, computed crc = 2308624525)": {"batch-crc-mismatch"},
    "org.apache.kafka.common.errors.CorruptRecordException: Found record size 0 smaller than "
    "minimum record overhead (14) in file /d/a-0/00000000000000000000.log.": {
        "batch-size-impossible",
        "preallocated-tail",
        "preallocated-tail-clean",
        "preallocated-tail-sealed",
    },
    "java.lang.IllegalArgumentException: requirement failed: Split operation is only permitted for "
    "segments with overflow, and the problem path is /d/a-0/00000000000000000000.log": {
        "batch-below-segment",
        "batch-offsets-inverted",
        "offset-overflow",
    },
    "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one "
    "with starting offset 0": {"disk-short", "offsets-not-increasing"},
    "Found a corrupted index file corresponding to log file /d/a-0/00000000000000000000.log due to "
    "Time index file /d/a-0/00000000000000000000.timeindex is corrupt, found 13 bytes which is "
    "neither positive nor a multiple of 12, recovering segment and rebuilding index files...": {
        "index-length",
        "index-order",
        "timeindex-length",
        "timeindex-order",
    },
    "org.apache.kafka.common.KafkaException: Received exception when fetching the next record from "
    "a-0. If needed, please seek past the record to continue consumption.": {"records-unreadable"},
    "Starting the log cleaner (kafka.log.LogCleaner)": set(),
}


@EACH
def test_a_code_is_kebab_case(code: FindingCode) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code.name)


@EACH
def test_a_code_is_there_under_its_own_name(code: FindingCode) -> None:
    assert CODES[code.name] is code
    assert getattr(codes, code.name.replace("-", "_").upper()) is code


@EACH
def test_a_code_says_everything(code: FindingCode) -> None:
    for text in (code.meaning, code.broker, code.advice):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text


@EACH
def test_a_message_is_found_in_a_line_that_was_made_from_it(code: FindingCode) -> None:
    for message in code.messages:
        line = f"[2026-11-21] WARN {message.replace('{}', '/d/a-0/1.log')} (kafka.log.Log)"
        assert code.logged_as(line)
    assert not code.logged_as("[2026-11-21] INFO started (kafka.server.KafkaServer)")


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_log_leads_to_its_codes(line: str) -> None:
    assert {code.name for code in CODES.values() if code.logged_as(line)} == LINES[line]


def test_severities_are_ranked_worst_first() -> None:
    assert [
        severity.value for severity in sorted(Severity, key=lambda severity: severity.rank)
    ] == [
        "error",
        "incomplete",
        "warning",
        "info",
    ]


def test_a_finding_reads_as_a_sentence() -> None:
    assert str(Detail("crc 0", "1")) == "expected crc 0, found 1"
    assert str(Offsets(3, 7)) == "3..7"
    assert str(Offsets(3, None)) == "3.."


def test_a_finding_survives_a_pipe() -> None:
    finding = Finding(
        codes.TORN_TAIL, Path("a-0/1.log"), 7, 8, Offsets(1, None), Detail("a", "b"), ("kdump",), 3
    )
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_only_notes_need_no_explaining() -> None:
    assert explain_command(codes.TORN_TAIL) == ("kdump", "explain", "torn-tail")
    assert explain_command(codes.TORN_TAIL_LIVE) is None
