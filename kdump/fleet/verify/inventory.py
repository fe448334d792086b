"""What a partition holds, as the driver keeps it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from kdump.audit.targets.target import Target, log_bytes


@dataclass(frozen=True, slots=True)
class Inventory:
    """A group as it was listed, pickled; ``logs`` in ``folder`` have so many bytes, by their names.

    The log directory, which may be large, and which groups share, is not in it.
    """

    folder: Path
    logs: Mapping[str, int]
    listed: bytes

    @classmethod
    def of(cls, target: Target) -> Inventory:
        """Take stock of a group that is listed."""
        folder = target.path if target.partition is not None else target.path.parent
        logs = {segment.log.name: log_bytes(segment) for segment in target.segments}
        return cls(folder, logs, pickle.dumps(replace(target, directory=None)))

    def open(self, target: Target) -> Target:
        """Return ``target`` as it was listed."""
        return replace(cast("Target", pickle.loads(self.listed)), directory=target.directory)
