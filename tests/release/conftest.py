"""The release that these tests run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of this commit; KDUMP_RELEASE names the directory of one that was made before."""
    made = os.environ.get("KDUMP_RELEASE")
    if made:
        return Path(made)
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / ".ci/release", directory], check=True)
    return directory
