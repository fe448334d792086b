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

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.maps import PACKAGE, documented, entries, imported

#: Words that had several meanings, or of which several had one, as parts of names.
WORDS = re.compile(
    r"(?:^|_)(told|tells?|telling|judged|settled?|kept|looks?|looked|looking|picked|losing"
    r"|weigh|weighed|weighing|unsound|somebody|nobody|anew|one)(?:_|$)"
)
#: Names that such a part has elsewhere: the position of a Python file object.
ELSEWHERE = {"tell"}


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
    folders = [path.parent for path in package.rglob("__init__.py")]
    return Figures(
        len(paths),
        sum(path.read_bytes().count(b"\n") for path in paths),
        max((len(entries(folder)), folder.name) for folder in folders),
        Counter(
            name
            for tree in trees.values()
            for name in _bound(tree)
            if WORDS.search(name) and name not in ELSEWHERE
        ),
        circles(_imports(package, trees)),
        [
            f"{_module(package, folder / '__init__.py')}.{name}"
            for folder in folders
            for name in sorted(entries(folder) - documented(folder).keys())
        ],
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
        found = {name for _, name in imported(_at_import(tree))}
        # Of ``from a.b import c`` it is c, if that is a module, else b.
        found = {name if name in names else name.rpartition(".")[0] for name in found}
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


def _module(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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
