"""A command is deleted with its folder and its line in the registry, and everything else works.

The commands that stand on it are deleted with it.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import kdump
from kdump.cli.main import _COMMANDS
from support.maps import PACKAGE, STANDS_ON, imported

TESTS = PACKAGE.parent / "tests" / "commands"
#: The folder of each command.
FOLDERS = {name: place.split(".")[2] for name, place in _COMMANDS.items()}


def without(commands: Iterable[str], top: Path) -> tuple[Path, set[str]]:
    """A copy of the installed package in ``top`` without these commands; the folders that went."""
    package = top / "kdump"
    shutil.copytree(
        Path(kdump.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    gone = {FOLDERS[name] for name in commands}
    gone |= {above for above, below in STANDS_ON.items() if below in gone}
    registry = package / "cli" / "main.py"
    text = registry.read_text()
    for name, folder in FOLDERS.items():
        if folder in gone:
            shutil.rmtree(package / "commands" / folder)
            text, lines = re.subn(rf'^ +"{name}": .*\n', "", text, flags=re.MULTILINE)
            assert lines == 1
    registry.write_text(text)
    return package, gone


def dangling(package: Path) -> Iterator[str]:
    """Imports of modules that are not there."""
    for path in package.rglob("*.py"):
        for line, name in imported(ast.walk(ast.parse(path.read_bytes()))):
            parts = name.split(".")
            if parts[:2] == ["kdump", "commands"]:
                module = package.parent.joinpath(*parts[:3])
                if not module.is_dir():
                    yield f"{path.relative_to(package.parent)}:{line} imports {name}"


def run(package: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the ``kdump`` of a copy."""
    return subprocess.run(
        [sys.executable, "-m", "kdump", *argv],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.once
@pytest.mark.parametrize("command", sorted(_COMMANDS))
@pytest.mark.slow
def test_nothing_misses_it(command: str, tmp_path: Path) -> None:
    package, gone = without([command], tmp_path)
    assert list(dangling(package)) == []
    shown = run(package, "--help")  # which imports all commands
    assert (shown.returncode, shown.stderr) == (0, "")
    _, _, listed = shown.stdout.partition("\n\nCheck: ")
    found = set(re.findall(r"^  ([a-z0-9-]+)  ", listed, re.MULTILINE))
    found |= set(re.findall(r"^kdump (help) lists", listed, re.MULTILINE))
    assert found == {name for name, folder in FOLDERS.items() if folder not in gone}


def test_it_is_unknown(tmp_path: Path) -> None:
    package, _ = without(["undo"], tmp_path)
    asked = run(package, "undo", "--help")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "No such command 'undo'" in asked.stderr


def test_a_command_that_another_needs_is_missed(tmp_path: Path) -> None:
    package, _ = without(["heal"], tmp_path)
    (package / "commands" / "undo" / "more.py").write_text("import kdump.commands.heal.command\n")
    assert list(dangling(package)) == [
        "kdump/commands/undo/more.py:1 imports kdump.commands.heal.command"
    ]


def picking() -> random.Random:
    """The chance that the hash of the commit is."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PACKAGE, capture_output=True, text=True, check=False
    ).stdout
    return random.Random(commit)


def stands_on_any(path: Path, commands: Iterable[str]) -> bool:
    """Whether a test module names one of ``commands``, or imports of it, itself or by helpers."""
    tree = ast.parse(path.read_bytes())
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, commands))})(?![\w-])")
    folders = {FOLDERS[name] for name in commands}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return (
        any(map(pattern.search, texts(tree)))
        or any(map(pattern.search, texts_of_helpers(tree)))
        or bool(folders & commands_imported(path))
        or bool(folders & called)  # as of what a helper runs: ``HEAL.undo(place)``
    )


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a part of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def texts_of_helpers(tree: ast.AST) -> Iterator[str]:
    """The strings of the functions that a module imports from helpers, and of those they call."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        path = helper(node.module)
        if path is None:
            continue
        defined = {
            each.name: each
            for each in ast.parse(path.read_bytes()).body
            if isinstance(each, ast.FunctionDef | ast.ClassDef)
        }
        left = [alias.name for alias in node.names]
        while left:
            found = defined.pop(left.pop(), None)
            if found is not None:
                yield from texts(found)
                left += (name.id for name in ast.walk(found) if isinstance(name, ast.Name))


def helper(module: str) -> Path | None:
    """The file of a module of helpers, by its name below ``tests``."""
    path = TESTS.parent.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


@cache
def commands_imported(path: Path) -> frozenset[str]:
    """The folders of commands from which a test module, or a helper that it imports, imports."""
    found = set[str]()
    for _, name in imported(ast.walk(ast.parse(path.read_bytes()))):
        parts = name.split(".")
        if parts[:2] == ["kdump", "commands"]:
            found.add(parts[2])
        for module in (name, name.rpartition(".")[0]):
            file = helper(module) if module and parts[0] != "kdump" else None
            if file is not None:
                found |= commands_imported(file)
    return frozenset(found)


def works_without(commands: list[str], top: Path, chance: random.Random | None = None) -> None:
    """The rest types, and the tests of the other commands pass that run none of ``commands``.

    Of each test two cases: what is missing misses in all of them. ``chance`` picks half of the
    modules of tests.
    """
    package, gone = without(commands, top)
    config, cache = PACKAGE.parent / "pyproject.toml", top / "cache"
    settings = ("--config-file", str(config), "--cache-dir", str(cache))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, str(package)],
        cwd=top,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    deleted = [name for name, folder in FOLDERS.items() if folder in gone]
    others = [
        str(path)
        for path in sorted(TESTS.rglob("test_*.py"))
        if path.parent.name not in gone and not stands_on_any(path, deleted)
    ]
    if chance is not None:
        others = chance.sample(others, len(others) // 2)
    plugins = ("-p", "no:cacheprovider", "-p", "support.two_cases")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugins, *others],
        cwd=PACKAGE.parent,
        env={**os.environ, "PYTHONPATH": f"{package.parent}:{TESTS.parent}", "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(1500)
def test_the_rest_works_without_three(tmp_path: Path) -> None:
    chance = picking()
    commands = chance.sample(sorted(_COMMANDS), 3)
    print("without", *commands)
    works_without(commands, tmp_path, chance)


@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_the_rest_works_without_it(command: str, tmp_path: Path) -> None:
    works_without([command], tmp_path)
