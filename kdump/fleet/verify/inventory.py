"""What a partition holds, as the driver keeps it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from kdump.audit.targets.target import Group, log_bytes


@dataclass(frozen=True, slots=True)
class Inventory:
    """A group as it was listed, pickled; ``logs`` in ``folder`` have so many bytes, by their names.

    The log directory, which may be large, and which groups share, is not in it.
    """

    folder: Path
    logs: Mapping[str, int]
    listed: bytes

    @classmethod
    def of(cls, group: Group) -> Inventory:
        """Take stock of a group that is listed."""
        folder = group.path if group.partition is not None else group.path.parent
        logs = {segment.log.name: log_bytes(segment) for segment in group.segments}
        return cls(folder, logs, pickle.dumps(replace(group, directory=None)))

    def open(self, group: Group) -> Group:
        """Return ``group`` as it was listed."""
        return replace(cast("Group", pickle.loads(self.listed)), directory=group.directory)
