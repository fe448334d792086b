"""Each folder's docstring is its map: what is in it, in the order in which its parts may import."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.maps import PACKAGE, documented, entries, imported


def duty(folder: Path, name: str) -> str:
    """The first paragraph of the docstring of a module or a folder."""
    module = folder / f"{name}.py"
    path = module if module.exists() else folder / name / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return " ".join(text.partition("\n\n")[0].split())


def upward(package: Path) -> list[str]:
    """Imports of what stands below the importer in the map of the folder that holds both."""
    orders: dict[str, list[str]] = {}
    for init in package.rglob("__init__.py"):
        folder = ".".join(init.parent.relative_to(package.parent).parts)
        orders[folder] = list(documented(init.parent))
    found = []
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package.parent).with_suffix("").parts
        for line, name in imported(ast.walk(ast.parse(path.read_bytes()))):
            parts = name.split(".")
            same = 0
            while same < min(len(parts), len(module)) and parts[same] == module[same]:
                same += 1
            folder = ".".join(module[:same])
            order = orders.get(folder, [])
            here, there = module[same : same + 1], parts[same : same + 1]
            if not here or not there:
                continue
            if (
                here[0] in order
                and there[0] in order
                and order.index(there[0]) > order.index(here[0])
            ):
                found.append(f"{path.relative_to(package.parent)}:{line} imports {name}")
    return found


@pytest.mark.parametrize(
    "folder",
    [path.parent for path in sorted(PACKAGE.rglob("__init__.py"))],
    ids=lambda folder: str(folder.relative_to(PACKAGE.parent)),
)
def test_a_map_has_every_entry_with_its_duty(folder: Path) -> None:
    here = entries(folder) - {"__main__"}
    assert documented(folder) == {name: duty(folder, name) for name in here}


def test_imports_follow_the_maps() -> None:
    assert upward(PACKAGE) == []


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str], Path]:
    """A package of two folders and two modules; the code given is that of the upper ones."""

    def make(code: str) -> Path:
        package = tmp_path / "kdump"
        for folder in ("a", "b"):
            (package / folder).mkdir(parents=True)
            (package / folder / "__init__.py").write_text('"""One.\n\nc  Upper.\nd  Lower.\n"""\n')
            (package / folder / "c.py").write_text(code)
            (package / folder / "d.py").write_text(f"from kdump.{folder} import c\n")
        (package / "__init__.py").write_text('"""All.\n\na/  Upper.\nb/  Lower.\n"""\n')
        return package

    return make


def test_what_follows_the_maps_is_allowed(package: Callable[[str], Path]) -> None:
    assert upward(package("import os\n")) == []


@pytest.mark.parametrize(
    ("code", "breaches"),
    [
        (
            "from kdump.b import d\n",
            ["kdump/a/c.py:1 imports kdump.b.d", "kdump/b/c.py:1 imports kdump.b.d"],
        ),
        ("def f():\n    import kdump.b.c\n", ["kdump/a/c.py:2 imports kdump.b.c"]),
    ],
)
def test_a_planted_breach_of_the_maps_is_found(
    package: Callable[[str], Path], code: str, breaches: list[str]
) -> None:
    assert upward(package(code)) == breaches


def test_a_public_class_name_is_there_once() -> None:
    places = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in places.items() if count > 1] == []
