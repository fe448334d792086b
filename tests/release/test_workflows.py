"""The workflows, held against actionlint: it knows expressions, permissions and needs too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

WORKFLOWS = Path(__file__).parents[2] / ".github/workflows"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def test_actionlint_finds_nothing() -> None:
    done = subprocess.run(
        ["go", "run", ACTIONLINT, *WORKFLOWS.iterdir()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text((WORKFLOWS / "release.yml").read_text().replace("needs: build", "needs: make"))
    done = subprocess.run(
        ["go", "run", ACTIONLINT, wrong], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "make" in done.stdout) == (1, True), done.stdout + done.stderr
