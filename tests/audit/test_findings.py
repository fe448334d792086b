"""The table of finding codes is whole and consistent, and findings can be sent and sorted."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.audit.checks.batches import TORN_TAIL, TORN_TAIL_LIVE
from kdump.audit.codes import CODES, MODULES
from kdump.audit.finding_code import FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from support.maps import PACKAGE, entries

EACH = pytest.mark.parametrize("code", CODES.values(), ids=CODES)


@EACH
def test_a_code_is_kebab_case(code: FindingCode) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code.name)


@EACH
def test_a_code_is_there_under_its_own_name(code: FindingCode) -> None:
    assert CODES[code.name] is code
    constant = code.name.replace("-", "_").upper()
    (module,) = [module for module, _ in MODULES if hasattr(module, constant)]
    assert getattr(module, constant) is code


@EACH
def test_a_code_says_everything(code: FindingCode) -> None:
    for text in (code.meaning, code.broker, code.advice):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text


def test_every_module_of_checks_and_every_check_is_listed() -> None:
    listed = {module.__name__.rpartition(".")[2] for module, _ in MODULES}
    assert listed == {*entries(PACKAGE / "audit" / "checks"), "room"}
    for module, _ in MODULES:
        lists = ("SEGMENT_CHECKS", "CHECKS", "DIRECTORY_CHECKS", "NODE_CHECKS")
        checks = {check for name in lists for check in getattr(module, name, ())}
        own = {each for name, each in vars(module).items() if name.startswith("check_")}
        assert checks == own


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
        TORN_TAIL, Path("a-0/1.log"), 7, 8, Offsets(1, None), Detail("a", "b"), ("kdump",), 3
    )
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_a_code_survives_a_pipe_to_a_process_that_has_no_code_yet() -> None:
    sent = pickle.dumps(TORN_TAIL)
    read = (
        "import pickle, sys; code = pickle.load(sys.stdin.buffer);"
        "from kdump.audit.checks.batches import TORN_TAIL; assert code is TORN_TAIL"
    )
    subprocess.run([sys.executable, "-c", read], input=sent, check=True)


def test_only_notes_need_no_explaining() -> None:
    assert explain_command(TORN_TAIL) == ("kdump", "explain", "torn-tail")
    assert explain_command(TORN_TAIL_LIVE) is None
