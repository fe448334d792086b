"""Reads the imports of the package and holds them against its layers.

Spec: folders are layers and imports point one way; what each layer must not touch is in ``RULES``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.maps import PACKAGE, STANDS_ON

#: A layer imports itself and those before it.
LAYERS = (
    "errors", "program", "values", "format", "storage", "metadata", "audit", "copies", "repair",
    "tables", "coordinators", "quorum", "output", "history", "fleet", "ui", "commands", "cli",
)  # fmt: skip
#: Beyond the order: who must not import whom all the same.
STRANGERS = {
    ("tables", "repair"),
    ("coordinators", "repair"),
    ("quorum", "repair"),
    ("output", "repair"),
    ("history", "repair"),
    ("fleet", "repair"),
}

#: Libraries, and the layers that they belong to.
OWNED = {
    "click": "ui, commands, cli",
    "rich": "ui, commands, cli",
    "pyspark": "fleet",
    "pyarrow": "tables, output, fleet, commands",
    "botocore": "",
    "numpy": "",
    "pandas": "",
}
#: The modules elsewhere that have one of them: two that a process of its own imports, and the files
#: of what runs on Spark remember.
LENT = {
    "pyarrow": (["kdump", "storage", "objects", "arrow"], ["kdump", "history", "evidence", "rows"]),
    "botocore": (["kdump", "storage", "objects", "s3"],),
}
#: Files, processes, clocks and chance: nothing that turns bytes into values needs them.
OUTER_WORLD = {
    "fcntl", "glob", "io", "mmap", "multiprocessing", "os", "pathlib", "random", "select",
    "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
#: They turn a path into text and touch no file.
HARMLESS = {"os.PathLike", "os.fspath"}
CLOCK_READINGS = {"now", "today", "utcnow"}
PRINTING = {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
MUTATING = {
    "os": {
        "chmod", "chown", "fchmod", "fchown", "ftruncate", "link", "makedirs", "mkdir", "mkfifo",
        "mknod", "remove", "removedirs", "rename", "renames", "replace", "rmdir", "setxattr",
        "symlink", "truncate", "unlink", "utime",
    },
    "shutil": {"chown", "copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
}  # fmt: skip
#: The modules that make these calls; those of its layer call the first by its name.
DURABLE = ["kdump", "repair", "transaction", "disk"]
NEW_FILES = (
    ["kdump", "output", "destination"],
    ["kdump", "output", "files"],
    ["kdump", "commands", "manifest", "output"],
)
#: The formatter of Click's help, whose methods are named like those of files.
_NO_FILE = "formatter"
MUTATING_METHODS = {"mkdir", "rmdir", "touch", "unlink", "write_bytes", "write_text"}


def breaches(package: Path) -> list[str]:
    """What the modules below ``package`` do against the layers, as ``path:line what``."""
    return [
        f"{path.relative_to(package.parent)}:{line} {what}"
        for path in sorted(package.rglob("*.py"))
        for line, what in _of_module(path, _module(path, package))
    ]


def _module(path: Path, package: Path) -> list[str]:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return list(parts[:-1] if parts[-1] == "__init__" else parts)


def _of_module(path: Path, module: list[str]) -> Iterator[tuple[int, str]]:
    layer = _layer(module)
    if len(module) > 1 and layer is None:
        yield 1, f"{'.'.join(module)} lies in no layer"
    imported, used = _read(path)
    for line, name in imported:
        yield from ((line, what) for what in _import_breach(layer, name, module))
    for line, name in used:
        yield from ((line, what) for what in _name_breach(layer, name, module))


def _layer(module: list[str]) -> str | None:
    if module == ["kdump", "__main__"]:
        return "cli"
    return module[1] if module[0] == "kdump" and module[1:2] and module[1] in LAYERS else None


@cache
def _read(path: Path) -> tuple[tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]:
    """The imports of a module, and the names that it uses, with their lines."""
    tree = ast.parse(path.read_bytes())
    return tuple(_imports(tree)), tuple(_names(tree))


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each imported name in full; ``.`` for a relative one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." if node.level else node.module
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that is used, dotted as it is written: ``print``, ``sys.stdout``, ``?.touch``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else "?"
            yield node.lineno, f"{owner}.{node.attr}"


def _import_breach(layer: str | None, name: str, module: list[str]) -> Iterator[str]:
    origin = name.split(".")
    if origin[0] == "":
        yield "a relative import: name the module in full"
    elif origin[0] == "kdump":
        imported = _layer(origin)
        if layer is None or imported is None:
            yield f"kdump itself imports {name}" if layer is None else f"imports {name}: no layer"
        elif layer == imported == "commands" and _stranger(module, origin):
            yield f"{module[2]} imports {name}"
        elif LAYERS.index(imported) > LAYERS.index(layer) or (layer, imported) in STRANGERS:
            yield f"{layer} imports {name}"
    elif (
        origin[0] in OWNED
        and layer not in OWNED[origin[0]].split(", ")
        and module not in LENT.get(origin[0], ())
    ):
        yield f"{layer} imports {origin[0]}, which is for {OWNED[origin[0]] or 'no layer'}"
    elif (
        layer in ("errors", "program", "values", "format")
        and origin[0] in OUTER_WORLD
        and name not in HARMLESS
    ):
        yield f"{layer} imports {name}"


def _stranger(module: list[str], origin: list[str]) -> bool:
    """Whether ``module`` of one command imports ``origin`` of another that it does not stand on."""
    here, there = module[2:3], origin[2:3]
    return here != there and [STANDS_ON.get(name) for name in here] != there


def _name_breach(layer: str | None, name: str, module: list[str]) -> Iterator[str]:
    owner, _, attribute = name.rpartition(".")
    if layer not in ("ui", "commands", "cli") and name in PRINTING:
        yield f"{layer} prints: {name}"
    if layer == "format" and (name == "open" or (owner and attribute in CLOCK_READINGS)):
        yield f"{layer} uses {name}"
    durable = module in (DURABLE, *NEW_FILES) or (layer == "repair" and owner == DURABLE[-1])
    if not durable and (
        attribute in MUTATING.get(owner, ())
        or (owner not in ("", _NO_FILE) and attribute in MUTATING_METHODS)
    ):
        yield f"{layer} changes files: {name}"


def test_the_package_keeps_its_layers() -> None:
    assert breaches(PACKAGE) == []


def test_every_module_is_read() -> None:
    seen = {_layer(_module(path, PACKAGE)) for path in PACKAGE.rglob("*.py")}
    assert {"errors", "format", "storage", "audit", "repair", "cli"} <= seen


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """``plant(path, code)``: the breaches of a package that holds this one module."""

    def of(path: str, code: str) -> list[str]:
        module = tmp_path / path
        module.parent.mkdir(parents=True)
        module.write_text(code)
        return breaches(tmp_path / "kdump")

    return of


@pytest.mark.parametrize(
    ("path", "code", "what"),
    [
        ("kdump/errors.py", "import kdump.format.batch", "errors imports kdump.format.batch"),
        (
            "kdump/format/a.py",
            "from kdump.storage import walk",
            "format imports kdump.storage.walk",
        ),
        ("kdump/storage/a.py", "from kdump.audit.survey.survey import survey", "storage imports"),
        (
            "kdump/audit/checks/a.py",
            "import kdump.repair.transaction.plan",
            "audit imports kdump.repair.transaction.plan",
        ),
        ("kdump/repair/a.py", "from kdump.cli import main", "repair imports kdump.cli.main"),
        (
            "kdump/fleet/a.py",
            "from kdump.repair import plan",
            "fleet imports kdump.repair.plan",
        ),
        ("kdump/audit/a.py", "def f() -> None:\n    import kdump.cli.main", "a.py:2 audit imports"),
        ("kdump/audit/a.py", "from kdump import cli", "audit imports kdump.cli"),
        (
            "kdump/commands/heal/a.py",
            "from kdump.commands.export import b",
            "heal imports kdump.commands.export.b",
        ),
        ("kdump/audit/a.py", "import kdump.commands.heal.command", "audit imports"),
        ("kdump/audit/a.py", "from . import survey", "a relative import"),
        ("kdump/utils.py", "", "kdump.utils lies in no layer"),
        ("kdump/audit/a.py", "from kdump.utils import f", "imports kdump.utils.f: no layer"),
        ("kdump/__init__.py", "import kdump.cli.main", "kdump itself imports kdump.cli.main"),
        ("kdump/format/a.py", "import os", "format imports os"),
        ("kdump/format/a.py", "from io import BytesIO", "format imports io.BytesIO"),
        ("kdump/format/a.py", "import time", "format imports time"),
        ("kdump/format/a.py", "f = open('x')", "format uses open"),
        ("kdump/format/a.py", "t = datetime.now()", "format uses datetime.now"),
        ("kdump/format/a.py", "t = datetime.datetime.now()", "format uses ?.now"),
        ("kdump/audit/a.py", "print(1)", "audit prints: print"),
        ("kdump/storage/a.py", "sys.stderr.write('')", "storage prints: sys.stderr"),
        ("kdump/audit/a.py", "import click", "audit imports click, which is for ui"),
        ("kdump/cli/a.py", "import pyspark.sql", "cli imports pyspark, which is for fleet"),
        (
            "kdump/storage/a.py",
            "import pyarrow.fs",
            "storage imports pyarrow, which is for tables, output, fleet, commands",
        ),
        ("kdump/storage/a.py", "os.unlink(path)", "storage changes files: os.unlink"),
        ("kdump/audit/a.py", "path.write_text('')", "audit changes files: path.write_text"),
        ("kdump/cli/a.py", "shutil.rmtree(path)", "cli changes files: shutil.rmtree"),
        ("kdump/cli/a.py", "disk.unlink(path)", "cli changes files: disk.unlink"),
        ("kdump/repair/a.py", "path.write_text('')", "repair changes files: path.write_text"),
    ],
)
def test_a_planted_breach_is_found(
    plant: Callable[[str, str], list[str]], path: str, code: str, what: str
) -> None:
    found = plant(path, code)
    assert len(found) == 1
    assert what in found[0]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("kdump/cli/a.py", "import click, rich\nfrom kdump.audit import verify\nprint(1)"),
        ("kdump/cli/a.py", "import sys\nsys.stdout.flush()"),
        ("kdump/commands/check/a.py", "from kdump.commands.export import manifest"),
        ("kdump/commands/heal/a.py", "from kdump.commands.heal import plan"),
        ("kdump/storage/objects/arrow.py", "import pyarrow.fs"),
        ("kdump/storage/objects/s3.py", "import botocore.session"),
        ("kdump/repair/a.py", "from kdump.repair import disk\ndisk.unlink(path)"),
        (
            "kdump/repair/transaction/disk.py",
            "import os\nfrom kdump.format import index\nos.unlink('x')",
        ),
        (
            "kdump/audit/a.py",
            "from kdump.audit.survey.survey import survey\nfrom kdump import errors",
        ),
        ("kdump/errors.py", "from os import PathLike, fspath"),
        ("kdump/format/a.py", "import struct\nx.replace('a', 'b')\nopened = a.open_batch()"),
    ],
)
def test_what_is_allowed_is_no_breach(
    plant: Callable[[str, str], list[str]], path: str, code: str
) -> None:
    assert plant(path, code) == []


def test_one_module_decides_the_exit_code() -> None:
    """The others say how a run ended: what was not read, what was refused, what was found."""
    deciding = {f"kdump.ui.exits.{name}" for name in ("PROBLEMS", "INCOMPLETE", "REFUSED", "USAGE")}
    found = {
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in PACKAGE.rglob("*.py")
        for line, name in _read(path)[0]
        if name in deciding and path != PACKAGE / "cli" / "main.py"
    }
    assert found == set()


def test_the_walk_alone_tells_which_damage_ends_a_log() -> None:
    """``Damage.is_tail`` and ``may_be_written`` say it, for all who read logs."""
    both = {"Reason.TORN_TAIL", "Reason.PREALLOCATED"}
    naming = [
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if both <= {name for _, name in _read(path)[1]}
    ]
    assert naming == [Path("storage/walk.py")]


def test_what_runs_on_spark_is_described_in_the_core() -> None:
    """Its side carries stages out: it neither reads segments, nor judges, nor compares."""
    foreign = {"judge", "survey", "Survey", "comparison", "compare", "replay"}
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in sorted((PACKAGE / "fleet").rglob("*.py"))
        for line, name in _read(path)[0]
        if foreign & set(name.split("."))
    ]
    assert found == []


def test_the_runs_of_records_are_read_in_one_place() -> None:
    """``dump`` alone has its own way: it shows the batches that records stand in."""
    reading = re.compile(r"reader\.run\(")
    found = [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if reading.search(path.read_text())
    ]
    assert found == [Path("commands/dump/records.py"), Path("storage/record_runs.py")]
