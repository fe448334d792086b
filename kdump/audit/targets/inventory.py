"""What a target was listed as, which travels beside the target."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from kdump.audit.targets.target import Target, log_bytes, log_cost
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class Inventory:
    """A listed target, pickled; ``logs`` are the sizes in bytes of the logs in ``folder``, by name.

    The log directory is left out: it may be large, and targets share it.
    """

    folder: AnyPath
    logs: Mapping[str, int]
    pickled: bytes

    @classmethod
    def of(cls, target: Target) -> Inventory:
        """Return the inventory of a listed target."""
        folder = target.path if target.partition is not None else target.path.parent
        logs = {segment.log.name: log_bytes(segment) for segment in target.segments}
        return cls(folder, logs, pickle.dumps(replace(target, directory=None)))

    def cost(self, name: str) -> int:
        """Return the cost of a log in bytes read, 0 for one that is not listed."""
        return log_cost(self.folder, self.logs.get(name, 0))

    def open(self, target: Target) -> Target:
        """Return ``target`` as it was listed."""
        return replace(cast("Target", pickle.loads(self.pickled)), directory=target.directory)
