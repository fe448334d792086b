"""Preparation: what a repair saves and writes into its folder before the first change.

Until all of it is done the partition is unchanged.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.rebuilt_indexes import Rebuild
from kdump.errors import Refused
from kdump.repair.transaction import disk
from kdump.repair.transaction.assembly import assemble
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import stamp_of, tail_digest
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import (
    Assembly,
    ConvertedPart,
    Cut,
    Plan,
    Prefix,
    Put,
    RebuiltIndex,
    Rewrite,
    Stamp,
    TakeMarker,
)
from kdump.repair.transaction.shared_files import checkpoint_path, marker_path
from kdump.storage.access import open_source
from kdump.storage.names import parse_file_name
from kdump.storage.walk import walk
from kdump.values import frozen

_PIECE_BYTES: Final = 1 << 20


@frozen
class Preparation:
    """The preparation of ``plan`` in ``folder``; new files get the time ``begun_ns``."""

    plan: Plan
    folder: Folder
    begun_ns: int

    def save_tails(self) -> dict[str, int]:
        """Save the tail of each log to cut; return the positions from which they are saved.

        Raises Refused if a tail is not the one that the plan was made for.
        """
        return {cut.name: self._save_tail(cut) for cut in self.plan.cuts}

    def save_marker(self) -> Stamp | None:
        """Save the clean shutdown marker if a step removes it; return its stamp.

        Raises Refused if it is missing.
        """
        if not any(isinstance(step, TakeMarker) for step in self.plan.steps):
            return None
        path = marker_path(self.plan)
        stamp = stamp_of(path)
        if stamp is None:
            raise Refused(f"{path}: expected the clean shutdown file, found none: plan again")
        content, like = path.read_bytes(), Attributes.of(path)
        disk.write_file(self.folder.marker_path, [content], like, stamp.mtime_ns)
        return stamp

    def save_checkpoint(self, step: Rewrite) -> None:
        """Save a checkpoint file that the step replaces, and write the new one."""
        path = checkpoint_path(self.plan, step)
        like, saved = Attributes.of(path), self.folder.backup_path(step.checkpoint)
        disk.copy_file(path, saved, step.before_size, like, step.before_mtime_ns)
        if step.content is None:
            raise ValueError(f"{step.checkpoint}: expected its new content, found none")
        staged = self.folder.staging_path(step.checkpoint)
        disk.write_file(staged, [step.content], like, self.begun_ns)

    def stage(self, put: Put) -> None:
        """Write the file of a step, from where the step moves it into place.

        ``staging`` writes converted logs.
        """
        path, like = self.folder.staging_path(put.name), self.attributes_of(put)
        mtime_ns = put.time_ns(self.begun_ns)
        if isinstance(put.recipe, Prefix):
            source = self.plan.partition / put.name
            disk.copy_file(source, path, put.recipe.size, like, mtime_ns)
            return
        if isinstance(put.recipe, Assembly):
            pieces = assemble(put, put.recipe, self.plan.partition)
            disk.write_file(path, pieces, like, mtime_ns)
            return
        content = put.content
        if content is None and isinstance(put.recipe, RebuiltIndex):
            content = make(put.recipe, self.plan.partition)
        if content is None or len(content) != put.size:
            raise ValueError(f"{put.name}: expected {put.size} bytes to write, found another size")
        disk.write_file(path, [content], like, mtime_ns)

    def attributes_of(self, put: Put) -> Attributes:
        """Return the attributes of a new file: those of the replaced file, or of a log."""
        files = self.plan.files
        name = put.recipe.log if isinstance(put.recipe, ConvertedPart) else put.name
        if name not in files:
            beside = Path(name).with_suffix(".log").name
            logs = (log for log in files if log.endswith(".log"))
            name = beside if beside in files else max(logs)
        path = self.plan.partition / name
        return Attributes.of(path if path.exists() else self.folder.backup_path(name))

    def _save_tail(self, cut: Cut) -> int:
        log, saved = self.plan.partition / cut.name, self.folder.tail_path(cut.name)
        start = disk.save_tail(log, cut.size, saved, Attributes.of(log))
        with open_source(saved, mapped=False) as source:
            found = tail_digest(source, cut.size - start)
        if found != cut.tail_sha256:
            raise Refused(
                f"{log}: expected the tail that the plan was made for, found another tail: plan "
                "again"
            )
        return start


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


# --- Indexes that a plan does not contain: rebuilt from the log when their step is done.
# Spec: LogSegment.recover; KOD 4.2.


#: More than any index needs; the plan has checked that the index fits segment.index.bytes.
_ROOM: Final = 2**31 - 1


def make(recipe: RebuiltIndex, partition: Path) -> bytes:
    """Rebuild the index of a segment of ``partition``; return its content.

    Raises SourceError if the log cannot be read; ValueError if the recipe names no index.
    """
    base_offset = parse_file_name(recipe.log).base_offset
    if base_offset is None or recipe.extension not in (".index", ".timeindex"):
        raise ValueError(
            f"expected an index of a segment, found {recipe.extension} of {recipe.log}"
        )
    settings = TopicSettings(index_interval_bytes=recipe.interval_bytes, segment_index_bytes=_ROOM)
    rebuild = Rebuild(base_offset, settings, room=_ROOM)
    with open_source(partition / recipe.log, mapped=False, sealed=True) as source:
        for piece in walk(source, base_offset):
            rebuild.add(piece)
    rebuilt = rebuild.finish()
    file = rebuilt.index if recipe.extension == ".index" else rebuilt.time_index
    if file.content is None:
        raise ValueError(
            f"{recipe.log}: expected at most {_ROOM} bytes of indexes, found more bytes"
        )
    return file.content
