"""The figures about the package: circles of imports, modules without a line in their map."""

from __future__ import annotations

from pathlib import Path

import pytest

from project.figures import figures
from support.maps import PACKAGE


@pytest.mark.slow
def test_the_package_has_no_circles_and_maps_all() -> None:
    found = figures(PACKAGE)
    assert found.circles == []
    assert found.unmapped == []


def test_what_is_planted_is_counted(tmp_path: Path) -> None:
    package = tmp_path / "kdump"
    package.mkdir()
    (package / "__init__.py").write_text('"""All.\n\na  First.\nb  Second.\n"""\n')
    (package / "a.py").write_text("from kdump.b import told\n")
    (package / "b.py").write_text("from kdump import a\ntold = 1\n")
    (package / "c.py").write_text("def f():\n    import kdump.a\n")
    found = figures(package)
    assert (found.modules, found.lines) == (4, 10)
    assert found.largest == (3, "kdump")
    assert found.words == {"told": 1}
    assert found.circles == [["kdump.a", "kdump.b"]]
    assert found.unmapped == ["kdump.c"]
