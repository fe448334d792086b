"""The order in which brokers are started after a comparison, and the commands that follow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kdump.audit.commands import unclean_election_command
from kdump.copies.comparison import Comparison, State
from kdump.format.lines.shell import shell_text

#: How many partitions are named for each kind of advice.
_LISTED: Final = 5


class Advice:
    """What follows from the comparisons of a run."""

    def __init__(self) -> None:
        self._first: Counter[int] = Counter()
        self._unclean: list[tuple[str, int, int | None]] = []

    def add(self, found: Comparison) -> None:
        """Add a partition."""
        if found.state not in (State.DIFFERENT, State.LAGGING) or len(found.copies) == 1:
            return
        copy = found.copies[found.first]
        if copy.node_id is not None and not any(each.live for each in found.copies):
            self._first[copy.node_id] += 1
        if found.unclean:
            self._unclean.append((found.topic, found.partition, copy.node_id))

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the lines at the end of a report, as label and text."""
        if self._first:
            nodes = [node for node, _ in self._first.most_common()]
            if len(nodes) == 1:
                yield "next", f"start node {nodes[0]} first: it keeps most of each partition"
            else:
                counts = ", ".join(f"node {node} for {self._first[node]:,}" for node in nodes)
                yield "next", f"start first the node that keeps most of a partition: {counts}"
        for topic, partition, node in self._unclean[:_LISTED]:
            where = "the node of the first choice" if node is None else f"node {node}"
            yield (
                "next",
                f"{topic}-{partition}: {where} is not in sync: start it alone, then elect it: "
                + shell_text(unclean_election_command(topic, partition)),
            )
        if len(self._unclean) > _LISTED:
            yield "", f"and {len(self._unclean) - _LISTED:,} more partitions"
