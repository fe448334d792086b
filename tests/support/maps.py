"""The maps in the docstrings of folders, what is in the folders, and what modules import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kdump"

#: The commands that stand on another one. This list only gets shorter.
STANDS_ON = {"check": "export"}

_ENTRY = re.compile(r"^(\w+)/? +(\S.*(?:\n {3,}\S.*)*)", re.MULTILINE)


def documented(folder: Path) -> dict[str, str]:
    """The entries of a folder's map, in order: its modules and folders, with what they are for."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_bytes())) or ""
    _, _, entries = text.partition("\n\n")
    return {name: " ".join(duty.split()) for name, duty in _ENTRY.findall(entries)}


def entries(folder: Path) -> set[str]:
    """What is in a folder: modules and folders of them."""
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The full names that ``nodes`` of a module import, with their lines."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
