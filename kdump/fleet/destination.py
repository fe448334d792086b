"""Destination: the new directory of an export, from its making to the manifest, or to its end.

Tasks write into a folder that readers pass over. What counts gets its name here, and the manifest
comes last: a directory without one is of an export that was killed.

Spec: none of Kafka's; names follow Hadoop's ``FileOutputFormat``, whose readers pass over those
that begin with ``_`` or ``.``. It must never touch a directory that was there before.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import quote

from kdump.errors import UsageError
from kdump.storage.source import source_error

MANIFEST: Final = "_manifest.json"
_TEMPORARY: Final = "_temporary"
#: As Spark names the directory of what has no topic.
_NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"


class Destination:
    """A directory at ``path`` that is made now; ``folder`` is where tasks write.

    Raises UsageError where something is there already, SourceError where none can be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / _TEMPORARY
        try:
            path.mkdir()
            self.folder.mkdir()
        except FileExistsError as error:
            raise UsageError(
                f"--to {path}: expected a name that is free, found it taken"
            ) from error
        except OSError as error:
            raise source_error(path, error) from error

    def take(self, file: Path, topic: str | None, number: int, extension: str) -> str:
        """Give a task's ``file`` its name, which is returned as it stands below the directory."""
        directory = _NO_TOPIC if topic is None else quote(topic, safe="")
        name = f"topic={directory}/part-{number:05d}.{extension}"
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
        return name

    def finish(self, manifest: bytes) -> None:
        """Leave out what does not count, and put the manifest there."""
        shutil.rmtree(self.folder)
        temporary = self.path / f".{MANIFEST}"
        with temporary.open("xb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / MANIFEST)

    def discard(self) -> None:
        """Take the directory away with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def discard(file: Path) -> None:
    """Take a task's file away, if it is there."""
    file.unlink(missing_ok=True)
