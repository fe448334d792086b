"""Figures about how the package is built: ``python tests/project/figures.py [PACKAGE]``.

Prints, for the package directory (``kdump`` here by default): modules, lines, the largest folder,
names from the left column of the table of words, circles of imports, modules without a line in the
map of their folder.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kdump"

#: Words that had several meanings, or of which several had one, as parts of names.
WORDS = re.compile(
    r"(?:^|_)(told|tells?|telling|judged|settled?|kept|looks?|looked|looking|picked|losing"
    r"|weigh|weighed|weighing|unsound|somebody|nobody|anew|one)(?:_|$)"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is counted; ``words`` are names bound, with how often, ``circles`` sets of modules."""

    modules: int
    lines: int
    largest: tuple[int, str]
    words: Counter[str]
    circles: list[list[str]]
    unmapped: list[str]


def figures(package: Path) -> Figures:
    """Read the package at ``package``."""
    paths = sorted(package.rglob("*.py"))
    trees = {path: ast.parse(path.read_bytes()) for path in paths}
    return Figures(
        len(paths),
        sum(path.read_bytes().count(b"\n") for path in paths),
        max((_entries(path.parent), path.parent.name) for path in paths),
        Counter(name for tree in trees.values() for name in _bound(tree) if WORDS.search(name)),
        circles(_imports(package, trees)),
        [_module(package, path) for path in paths if not _mapped(path)],
    )


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes that reach each other, each sorted; single nodes are none."""
    reach = {node: _reached(graph, node) for node in graph}
    found = {
        tuple(sorted(other for other in reach[node] if node in reach[other]))
        for node in graph
        if node in reach[node]
    }
    return [list(circle) for circle in sorted(found)]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    queue = [start]
    while queue:
        for node in graph.get(queue.pop(), set()) - seen:
            seen.add(node)
            queue.append(node)
    return seen


def _imports(package: Path, trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module imports when it is imported itself."""
    names = {_module(package, path) for path in trees}
    graph: dict[str, set[str]] = {}
    for path, tree in trees.items():
        found: set[str] = set()
        for node in _at_import(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= whole & names or {node.module}
        graph[_module(package, path)] = (found & names) - {_module(package, path)}
    return graph


def _at_import(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _at_import(node)


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _entries(folder: Path) -> int:
    modules = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    return len(modules) + len(list(folder.glob("*/__init__.py")))


def _module(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _mapped(path: Path) -> bool:
    """Whether the folder of a module says what the module is for; kernel and packages aside."""
    if path.name.startswith("_"):
        return True
    init = path.parent / "__init__.py"
    text = ast.get_docstring(ast.parse(init.read_bytes())) if init.exists() else None
    return re.search(rf"^{path.stem} +\S", text or "", re.MULTILINE) is not None


def main() -> None:
    """Print the figures, each on a line."""
    found = figures(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)
    count, folder = found.largest
    words = ", ".join(f"{name} {times}" for name, times in found.words.most_common(12))
    print(f"modules                {found.modules}")
    print(f"lines                  {found.lines}")
    print(f"largest folder         {count} entries, {folder}")
    print(f"words of the table     {found.words.total()} names: {words or 'none'}")
    print(f"circles of imports     {len(found.circles)} {found.circles or ''}".rstrip())
    print(f"modules without a map  {len(found.unmapped)}")


if __name__ == "__main__":
    main()
