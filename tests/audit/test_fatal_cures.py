"""The catalogue of starts that fail: each row has a cure, a command, or says what a person does."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from audit.fatal_starts import MODES, ROWS, VERSION, FatalStart, states
from kdump.audit.run.reconcile import reconcile_directories, requested_findings
from kdump.audit.run.verify import verify
from kdump.audit.verdicts.cures import Diagnosis, cures_of, why_left
from kdump.audit.verdicts.next_start import with_forecast
from kdump.ui.options.targets import TargetOptions, find_scope
from support.crashing.running import run
from support.fixtures_loader import ROOT as FIXTURES_ROOT
from support.forge_metadata import METADATA

#: What no disk shows: who holds a lock, and which release starts.
ON_NO_DISK = {row.name for row in ROWS if all(mode in row.unseen for mode in MODES)}
SEEN = [row for row in ROWS if row.name not in ON_NO_DISK]
#: The partitions that rows change.
CHANGED = re.compile(r"(codec-none|groups|__cluster_metadata)-0")


def answer(row: FatalStart, config: Path) -> tuple[str, Diagnosis]:
    """Who heals a row, and what is shown of it: ``repair``, another command, or a person."""
    scope = find_scope(TargetOptions([], config=config))
    targets = [
        replace(target, stopped=True)
        for target in scope.targets
        if CHANGED.match(target.path.name) or target.error is not None
    ]
    found = requested_findings(reconcile_directories(scope.context), scope)
    of_row = [finding for finding in found if finding.code.name == row.code]
    for verdict in verify(
        targets, deep=False, jobs=1, context=scope.context, rebuild=True, conclude=with_forecast
    ):
        own = [finding for finding in verdict.findings if finding.code.name == row.code]
        if own and verdict.target.error is None:
            diagnosis = cures_of(verdict)
            if diagnosis.left is None:
                return "repair", diagnosis
            return _who(diagnosis), diagnosis
        of_row += own
    assert of_row, row.name
    diagnosis = Diagnosis(left=why_left(of_row[0]), command=of_row[0].remedy)
    return _who(diagnosis), diagnosis


def _who(diagnosis: Diagnosis) -> str:
    explained = diagnosis.command is None or diagnosis.command[:2] == ("kdump", "explain")
    return "a person" if explained else "a command"


def complaints(row: FatalStart, who: str, diagnosis: Diagnosis) -> list[str]:
    """What is wrong with the answer to a row."""
    wrong = []
    if who == "repair" and not diagnosis.cures:
        wrong.append(f"{row.name}: nothing")
    if who == "a person":
        code, _, advice = str(diagnosis.left).partition(". ")
        if not advice:
            wrong.append(f"{row.name}: {code} says nothing of what to do")
        moved = row.heal is not None and row.heal.__qualname__.startswith("_remove")
        if moved and not re.search(r"\b([Mm]ove|[Dd]elete|[Rr]emove)\b", advice):
            wrong.append(f"{row.name}: what heals it is not in: {advice}")
    return wrong


#: A row of each code and outcome.
KINDS = {(row.code, row.outcome): row for row in SEEN}


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_a_row_of_each_kind_has_an_answer(row: FatalStart, tmp_path: Path) -> None:
    _, config = states(row, "clean", tmp_path)
    assert complaints(row, *answer(row, config)) == []


@pytest.mark.slow
def test_every_row_has_an_answer(tmp_path: Path) -> None:
    """Of 147 rows three are on no disk."""
    wrong, answers = list[str](), Counter[str]()
    for number, row in enumerate(SEEN):
        top = tmp_path / str(number)
        top.mkdir()
        _, config = states(row, "clean", top)
        who, diagnosis = answer(row, config)
        answers[who] += 1
        wrong += complaints(row, who, diagnosis)
    assert wrong == []
    assert (len(ROWS), len(ON_NO_DISK)) == (147, 3)
    assert answers == {"a person": 117, "a command": 13, "repair": 14}


@pytest.mark.parametrize("name", ["directory-lost+found", "name.log", "quorum-state-zeros"])
def test_the_plan_says_what_a_person_does(name: str, tmp_path: Path) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    _, config = states(row, "clean", tmp_path)
    _, diagnosis = answer(row, config)
    text = " ".join(run(["verify", "--config", str(config)]).out.split())
    assert f": {diagnosis.left}: kdump explain {row.code} " in text
    assert "no command repairs it" not in text
    left = " ".join(run(["repair", "--config", str(config)]).out.split())
    assert f": {diagnosis.left} (kdump explain {row.code})" in left


@pytest.mark.parametrize("name", ["metadata-id-other", "metadata-id-empty", "metadata-id-zeros"])
def test_reindex_writes_the_topic_id_of_the_metadata_log(name: str, tmp_path: Path) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    data, config = states(row, "clean", tmp_path)
    _, diagnosis = answer(row, config)
    assert diagnosis.command is not None
    assert run([*diagnosis.command[1:], "--apply"]).code == 0
    broker = FIXTURES_ROOT / f"brokers/{VERSION}/clean/{METADATA}/partition.metadata"
    assert (data / METADATA / "partition.metadata").read_bytes() == broker.read_bytes()
    assert run(["verify", "--config", str(config)]).code == 0
