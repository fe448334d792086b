"""Converted logs: sizes before and after, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from kdump.repair.transaction.plan import ConvertedPart, Plan, Put, Step
from kdump.ui.units import count_text, size_text
from kdump.values import frozen


@frozen
class ConversionSums:
    """The sums of a conversion; ``old`` and ``new`` are the numbers of logs before and after it.

    ``digests`` are record digests, one for each new log.
    """

    old: int
    new: int
    before_bytes: int
    after_bytes: int
    records: int
    digests: tuple[str, ...]

    @classmethod
    def from_plan(cls, plan: Plan, steps: Iterable[Step]) -> Self:
        """Sum up ``steps`` of a plan, which put all new logs of each converted log in place."""
        made = [
            (step.size, step.recipe)
            for step in steps
            if isinstance(step, Put) and isinstance(step.recipe, ConvertedPart)
        ]
        logs = {recipe.log for _, recipe in made}
        return cls(
            len(logs),
            len(made),
            sum(plan.files[log].size for log in logs),
            sum(size for size, _ in made),
            sum(recipe.records for _, recipe in made),
            tuple(recipe.digest for _, recipe in made),
        )

    @classmethod
    def from_receipt(cls, logs: Mapping[str, Mapping[str, Any]]) -> Self:
        """Sum up the new logs of a receipt, by name."""
        before = {log["from"]: log["bytes_before"] for log in logs.values()}
        return cls(
            len(before),
            len(logs),
            sum(before.values()),
            sum(log["bytes_after"] for log in logs.values()),
            sum(log["records"] for log in logs.values()),
            tuple(log["digest_after"] for log in logs.values()),
        )

    @property
    def sizes(self) -> str:
        """The sizes of the logs before and after."""
        return f"{size_text(self.before_bytes)} -> {size_text(self.after_bytes)}"

    @property
    def logs(self) -> str:
        """The number of logs, before and after if it changes."""
        split = f" -> {self.new:,}" if self.new != self.old else ""
        return f"{self.old:,}{split} {'log' if self.new == 1 else 'logs'}"

    @property
    def count(self) -> str:
        """The number of records, for a single log with its digest."""
        digest = f", digest {self.digests[0]}" if len(self.digests) == 1 else ""
        return count_text(self.records, "record") + digest
