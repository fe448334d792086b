"""A release of Spark that is too old: one line with what was found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

OLD = "3.5.6"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """What a program finds as pyspark before all else; it has none of the newer modules."""
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = {OLD!r}\n")
    return tmp_path


def run(old: Path, program: str) -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.path.insert(0, {str(old)!r})\n{program}"
    command = [sys.executable, "-P", "-c", start]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_says_it_in_one_line(old: Path) -> None:
    done = run(
        old,
        "from kdump.cli.main import main\n"
        f"raise SystemExit(main(['verify', '--master', 'local[1]', {str(old)!r}]))",
    )
    (line,) = done.stderr.splitlines()
    assert f"expected Spark 4.0 or newer, found {OLD}" in line
    assert (done.returncode, done.stdout) == (2, "")


def test_the_data_source_says_it_at_its_end(old: Path) -> None:
    done = run(old, "import kdump.fleet.datasource")
    assert done.stderr.splitlines()[-1] == (
        f"kdump.errors.UsageError: expected Spark 4.0 or newer, found {OLD}"
    )
