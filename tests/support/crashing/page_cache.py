"""What a loss of power leaves of recorded operations: those not synced are dropped and reordered.

The model: the content of a file, and who owns it, what is allowed and how old it is, last only once
the file is synced, and until then each is that of any moment since; of what was written meanwhile
any piece may be zeros. How long a file is lasts no earlier than its times of then, and a cut
changes both at once. A name lasts once its directory is synced; until then any of the changes may
be lost, each with all that came after it under the same names. A rename is done in both directories
or in none. Imports nothing of kdump.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from support.crashing.seam import Operation
from support.crashing.trees import Node, Tree

#: A directory by its number, and a name in it.
_Entry = tuple[int, str]


@dataclass
class _File:
    """A file or directory: how it was last synced, and all that it was since, in order.

    ``cuts`` counts the cuts before each version.
    """

    versions: list[Node]
    cuts: list[int] = field(default_factory=lambda: [0])

    def change(self, node: Node, *, cut: bool) -> None:
        self.versions.append(node)
        self.cuts.append(self.cuts[-1] + cut)

    def sync(self) -> None:
        del self.versions[:-1], self.cuts[:-1]

    def left(self, chance: random.Random) -> Node:
        """What may be left of it."""
        number = _some(chance, range(len(self.versions)))
        kept = self.versions[number]
        if kept.is_directory:
            return kept
        alike = range(self._since(number), len(self.versions))
        like = self.versions[
            _some(chance, [at for at in alike if self.cuts[at] == self.cuts[number]])
        ]
        content = kept.content or b""
        synced = self.versions[0].content or b""
        if len(self.versions) > 1 and chance.random() < 0.25:
            start = chance.randrange(len(content) + 1)
            stop = chance.randrange(start, len(content) + 1)
            content = content[:start] + _unwritten(synced, start, stop) + content[stop:]
        return replace(like, content=content)

    def _since(self, number: int) -> int:
        """The first version that was as long as that one since the last cut."""
        while number and self.cuts[number - 1] == self.cuts[number]:
            before, now = (self.versions[at].content or b"" for at in (number - 1, number))
            if len(before) != len(now):
                break
            number -= 1
        return number


def _some(chance: random.Random, numbers: Sequence[int]) -> int:
    """One of ``numbers``; the last one more often."""
    return numbers[-1] if chance.random() < 0.4 else chance.choice(numbers)


def _unwritten(synced: bytes, start: int, stop: int) -> bytes:
    """What stands there where nothing was written since: the old bytes, behind them zeros."""
    return synced[start:stop].ljust(stop - start, b"\0")


@dataclass(eq=False)
class _Change:
    """Names that come to stand for a file, or None for nothing, all at once."""

    entries: dict[_Entry, int | None]


@dataclass
class PageCache:
    """A tree, and what was done to it but may not be on disk yet."""

    _files: list[_File] = field(default_factory=list)
    _lasting: dict[_Entry, int] = field(default_factory=dict)
    _now: dict[_Entry, int] = field(default_factory=dict)
    _pending: list[_Change] = field(default_factory=list)

    @classmethod
    def of(cls, tree: Tree) -> PageCache:
        """All of ``tree`` is on disk."""
        made = cls()
        numbers: dict[str, int] = {}
        for path, node in tree.items():
            if node.twin is not None and node.twin != path:
                number = numbers[node.twin]
            else:
                number = len(made._files)
                made._files.append(_File([replace(node, twin=None)]))
            numbers[path] = number
            if path != ".":
                entry = (numbers[os.path.dirname(path) or "."], os.path.basename(path))
                made._lasting[entry] = made._now[entry] = number
        return made

    def do(self, operation: Operation) -> None:
        """Take in what was done."""
        match operation.method, operation.paths:
            case "sync", (path,):
                self._sync(self._number(path))
            case "rename", (source, target):
                number = self._number(source)
                self._change({self._entry(source): None, self._entry(target): number})
            case "link", (source, target):
                self._change({self._entry(target): self._number(source)})
            case (("unlink" | "remove_directory"), (path,)):
                self._change({self._entry(path): None})
            case (("open" | "make_directory"), (path,)):
                assert operation.left is not None
                self._files.append(_File([operation.left]))
                self._change({self._entry(path): len(self._files) - 1})
            case _, (path, *_):
                assert operation.left is not None
                cut = operation.method == "truncate"
                self._files[self._number(path)].change(operation.left, cut=cut)

    def left(self, chance: random.Random) -> dict[str, Node]:
        """A tree that may be found after the power is lost now."""
        entries = dict(self._lasting)
        lost: set[_Entry] = set()
        likely = chance.choice((0.0, 0.3, 0.6, 0.9, 1.0))
        for change in self._pending:
            if lost.isdisjoint(change.entries) and chance.random() < likely:
                _apply(entries, change)
            else:
                lost.update(change.entries)
        below: dict[int, list[tuple[str, int]]] = {}
        for (directory, name), number in entries.items():
            below.setdefault(directory, []).append((name, number))
        numbers = sorted({0, *entries.values()})
        nodes = {number: self._files[number].left(chance) for number in numbers}
        return _linked(dict(_walk(".", 0, nodes, below)))

    def _sync(self, number: int) -> None:
        self._files[number].sync()
        rest: list[_Change] = []
        # What lasts takes along what came before it under the same names.
        wanted = {entry for one in self._pending for entry in one.entries if entry[0] == number}
        for change in reversed(self._pending):
            if wanted.isdisjoint(change.entries):
                rest.append(change)
            else:
                wanted.update(change.entries)
        rest.reverse()
        for change in self._pending:
            if change not in rest:
                _apply(self._lasting, change)
        self._pending = rest

    def _change(self, entries: dict[_Entry, int | None]) -> None:
        change = _Change(entries)
        self._pending.append(change)
        _apply(self._now, change)

    def _number(self, path: str) -> int:
        number = 0
        for name in () if path == "." else path.split(os.sep):
            number = self._now[number, name]
        return number

    def _entry(self, path: str) -> _Entry:
        return self._number(os.path.dirname(path) or "."), os.path.basename(path)


def losses(
    tree: Tree,
    done: Sequence[Operation],
    chance: random.Random,
    count: int,
    *,
    first: Sequence[Operation] = (),
) -> Iterator[tuple[int, dict[str, Node]]]:
    """``count`` trees that a loss of power may leave, each with how many operations were made.

    ``first`` were made before ``done``, by a process that was killed.
    """
    # Half of them before a sync, when most is at stake.
    syncs = [number for number, one in enumerate(done) if one.method == "sync"] or [len(done)]
    moments = sorted(
        chance.choice(syncs) if number % 2 else chance.randrange(len(done) + 1)
        for number in range(count)
    )
    cache = PageCache.of(tree)
    for operation in first:
        cache.do(operation)
    made = 0
    for moment in moments:
        while made < moment:
            cache.do(done[made])
            made += 1
        yield moment, cache.left(chance)


def _apply(entries: dict[_Entry, int], change: _Change) -> None:
    for entry, number in change.entries.items():
        if number is None:
            entries.pop(entry, None)
        else:
            entries[entry] = number


def _walk(
    path: str, number: int, nodes: dict[int, Node], below: dict[int, list[tuple[str, int]]]
) -> Iterator[tuple[str, tuple[int, Node]]]:
    yield path, (number, nodes[number])
    for name, inner in sorted(below.get(number, [])):
        yield from _walk(name if path == "." else f"{path}/{name}", inner, nodes, below)


def _linked(found: dict[str, tuple[int, Node]]) -> dict[str, Node]:
    """The nodes, with twins where a file has several names."""
    names: dict[int, list[str]] = {}
    for path, (number, _) in found.items():
        names.setdefault(number, []).append(path)
    return {
        path: replace(node, twin=names[number][0] if len(names[number]) > 1 else None)
        for path, (number, node) in found.items()
    }
