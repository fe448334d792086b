"""The order in which brokers are started after a comparison, and the commands that follow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from kdump.audit.commands import Remedy, heal_command, salvage_command, unclean_election_command
from kdump.cli.ui.units import count_text
from kdump.copies.comparison import Comparison, State
from kdump.storage.manifests.path import ManifestPath
from kdump.values import frozen

#: How many partitions are named for each kind of advice.
_LISTED: Final = 3


@frozen
class Step:
    """A step after a comparison, with the command that takes it, if there is one."""

    text: str
    command: Remedy | None = None


class Advice:
    """What follows from the comparisons of a run."""

    def __init__(self) -> None:
        self._first: Counter[int] = Counter()
        self._heals: list[Step] = []
        self._cuts: list[Step] = []
        self._unclean: list[Step] = []

    def add(self, found: Comparison) -> None:
        """Add a partition."""
        self._heals.extend(_heals(found))
        if found.state not in (State.DIFFERENT, State.LAGGING):
            return
        if len(found.copies) == 1 and not found.missing:
            return
        first = found.copies[found.first]
        name = "the first choice" if first.node_id is None else f"node {first.node_id}"
        self._cuts.extend(_cuts(found, name))
        nodes = {copy.node_id for copy in found.copies}.union(found.missing)
        if (
            first.node_id is not None
            and first.can_lead
            and len(nodes) > 1  # else they are backups of one
            and not any(copy.live for copy in found.copies)
        ):
            self._first[first.node_id] += 1
        if found.unclean and first.can_lead:
            self._unclean.append(
                Step(
                    f"{name} is not in sync for {found.topic}-{found.partition}: start it alone, "
                    "then elect it",
                    unclean_election_command(found.topic, found.partition),
                )
            )

    def steps(self) -> Iterator[Step]:
        """Yield the steps in their order."""
        yield from _listed(self._heals)
        yield from _listed(self._cuts)
        if self._first:
            nodes = [node for node, _ in self._first.most_common()]
            if len(nodes) == 1:
                yield Step(f"start node {nodes[0]} first")
            else:
                counts = ", ".join(f"node {node} for {self._first[node]:,}" for node in nodes)
                yield Step(f"nodes to start first, by their number of partitions: {counts}")
        yield from _listed(self._unclean)


def _heals(found: Comparison) -> Iterator[Step]:
    """Yield the repairs of copies that have lost what others have."""
    for index, copy in enumerate(found.copies):
        sources = set(chain.from_iterable(found.sound_in[index]))
        paths = [
            found.copies[number].path
            for number in found.order
            if number in sources and not isinstance(found.copies[number].path, ManifestPath)
        ]
        if paths and isinstance(copy.path, Path):
            broker = " once its broker is stopped" if copy.live else ""
            yield Step(
                f"{copy.path} has lost what other copies have; to take it from them{broker}",
                heal_command(copy.path, paths),
            )


def _cuts(found: Comparison, name: str) -> Iterator[Step]:
    """Yield what other copies lose when the first one, called ``name``, leads."""
    for leadership in found.leaderships:
        if leadership.leader == found.first:
            for cut in leadership.cuts:
                if cut.records:
                    path = found.copies[cut.copy].path
                    records = count_text(cut.records, "record")
                    text = f"{path} loses {records} when {name} leads"
                    if isinstance(path, ManifestPath):
                        yield Step(text)
                    else:
                        yield Step(f"{text}; to save them before", salvage_command(path))


def _listed(steps: list[Step]) -> Iterator[Step]:
    yield from steps[:_LISTED]
    if len(steps) > _LISTED:
        yield Step(f"and {len(steps) - _LISTED:,} more")
