"""The verdict of ``compare``, and its report where a run ends early."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.cli.main import main
from kdump.commands.compare.report import TextComparisons
from kdump.copies.comparison import Comparison
from kdump.ui.exits import OK
from support.fixtures_loader import ROOT, copy_fixture

pytestmark = pytest.mark.once


def test_a_replica_whose_log_is_gone_is_no_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = copy_fixture("4.3.1/replicas", tmp_path / "nodes")
    shutil.rmtree(top / "2/cleaned-0")
    paths = [str(top / node) for node in "123"]
    assert main(["compare", "--topic", "cleaned", *paths]) == OK
    text = capsys.readouterr().out
    assert text.startswith("WARNING       Of 1 partition, a node with a replica has no log.")


def test_a_run_that_ends_early_prints_what_it_knows_and_no_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps for some partitions would make the others lose records."""
    paths = [str(ROOT / f"brokers/4.3.1/replicas/{node}") for node in (1, 2, 3)]
    real_add = TextComparisons.add
    for form in ("text", "html"):
        seen = 0

        def add(self: TextComparisons, found: Comparison) -> None:
            nonlocal seen
            seen += 1
            if seen == 4:
                raise KeyboardInterrupt
            real_add(self, found)

        with monkeypatch.context() as patch:
            patch.setattr(TextComparisons, "add", add)
            assert main(["compare", *paths, "--format", form]) == 130
        text = capsys.readouterr().out
        assert "ERROR" in text
        assert "The run ended early: not all was compared." in " ".join(text.split())
        assert "\nnext " not in text
        assert text.count("PARTITION") == 3
