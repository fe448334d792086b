"""The ways to free a number of bytes on the file system of log directories.

Each of them stands by itself. None is for bytes that retention frees anyway at its next check.
"""

from __future__ import annotations

from collections.abc import Sequence

from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.sizes.measure import PartitionSpace
from kdump.audit.targets.context import Context
from kdump.commands.space.delete_records import DeletedOffsets, deleted_offsets
from kdump.commands.space.reassignment import (
    Reassignment,
    moves_between_directories,
    replicas_given_up,
)
from kdump.commands.space.shorter import ShorterRetention, shorter_retention
from kdump.values import frozen


@frozen
class Wish:
    """The bytes that are to be free, and the ways to that, each by itself.

    ``due_bytes`` are freed without any of them, and ``wanted`` are to be freed beyond these. What
    needs a running cluster, ``given_up`` and ``deleted``, is None if the broker is ``stopped``. A
    way that there is not is None, or empty.
    """

    bytes: int
    due_bytes: int
    stopped: bool
    moved: Reassignment | None
    given_up: Reassignment | None
    deleted: DeletedOffsets | None
    shorter: tuple[ShorterRetention, ...]

    @property
    def wanted(self) -> int:
        """The bytes beyond what is due, 0 if that is enough."""
        return max(self.bytes - self.due_bytes, 0)

    @property
    def shorter_bytes(self) -> int:
        """The bytes that the retention of all topics frees."""
        return sum(each.bytes for each in self.shorter)


def find_ways(
    measured: Sequence[PartitionSpace],
    context: Context,
    directories: Sequence[DirectoryFacts],
    wish_bytes: int,
    due_bytes: int,
) -> Wish:
    """Return the ways to free ``wish_bytes``, of which ``due_bytes`` are due."""
    stopped = bool(directories) and all(facts.stopped for facts in directories)
    wanted = wish_bytes - due_bytes
    if wanted <= 0:
        return Wish(wish_bytes, due_bytes, stopped, None, None, None, ())
    images = (node.image for node in context.nodes.values())
    own = next((image.topic_configs for image in images if image is not None), {})
    space = next((facts.space for facts in directories if facts.space is not None), None)
    return Wish(
        wish_bytes,
        due_bytes,
        stopped,
        moves_between_directories(measured, context, space, wanted),
        None if stopped else replicas_given_up(measured, context, wanted),
        None if stopped else deleted_offsets(measured, wanted, context.now_ms),
        shorter_retention(measured, own, wanted, context.now_ms),
    )
