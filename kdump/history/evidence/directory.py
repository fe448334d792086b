"""The directory of a state: its place and its rights, and where the evidence of a log directory is.

The evidence of a partition is in ``directory=DIRECTORY/partition=PARTITION.TOPIC_ID/``. So the
state is one table to Spark, DuckDB and pandas. A log directory is known by its ``directory.id``,
also after a move. Before Kafka 3.7 it has none: it is then one of its cluster and node, at its
path. What has no ids is known by its path.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from kdump.audit.targets.target import Root, Target
from kdump.errors import SourceError, StateError, UsageError, VanishedError
from kdump.format.properties import MetaProperties
from kdump.history.due import topic_id_of
from kdump.history.evidence.files import read_file, write_file
from kdump.output.files import make_directory, writing_rights
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath, as_local, scan
from kdump.storage.rights import Rights, acting
from kdump.values import frozen

#: The file that makes a directory a state, and the version of what is in it.
MARKER: Final = "_kdump_state.json"
_FIELD: Final = "kdump_state"
_VERSION: Final = 1
#: The longest name of a directory, which file systems limit to 255 bytes, and what is left of a
#: longer one in front of its digest.
_LONGEST: Final = 200
_HEAD: Final = 150


@frozen
class DirectoryState:
    """Where the evidence of a log directory is, and by which rules a run uses it.

    ``top`` is the directory of the state. Files are read and written with ``rights``. What was read
    more than ``max_age_s`` seconds before ``now_ms``, the begin of the run, is due, as is what
    another release than ``version`` has read.
    """

    top: AnyPath
    folder: AnyPath
    rights: Rights | None
    max_age_s: int
    now_ms: int
    version: str

    def partition(self, target: Target) -> AnyPath:
        """Return the folder of a partition, whose topic id is read."""
        name = f"{target.path.name}.{topic_id_of(target)}"
        return self.folder / f"partition={_safe(name)}"


@frozen
class FleetState:
    """The state of a run. ``names`` are those of log directories, by path.

    The other fields are those of ``DirectoryState``.
    """

    path: AnyPath
    rights: Rights | None
    max_age_s: int
    now_ms: int
    version: str
    names: Mapping[AnyPath, str] = field(default_factory=dict)

    def of(self, roots: Iterable[Root]) -> FleetState:
        """Return the state for a run over ``roots``."""
        return replace(self, names=_names(roots))

    def about(self, target: Target) -> DirectoryState:
        """Return where the evidence of the log directory of ``target`` is."""
        path = directory_of(target)
        folder = self.path / f"directory={self.names.get(path) or _safe(_key(None, path))}"
        return DirectoryState(
            self.path, folder, self.rights, self.max_age_s, self.now_ms, self.version
        )


def directory_of(target: Target) -> AnyPath:
    """Return the log directory of a target, or the directory that it is in."""
    directory = target.directory
    return target.path.parent if directory is None else directory.directory.path


def open_state(path: AnyPath, read: Sequence[AnyPath], max_age_s: int, version: str) -> FleetState:
    """Return the state at ``path``, which is created if it does not exist.

    Raises UsageError for a place in one of the directories that are ``read`` or in a log directory,
    and StateError for a directory that is no state, is of a later version, or cannot be written.
    Raises Refused if this process is root and another user can redirect the path.
    """
    path = path.absolute()
    if isinstance(path, RemotePath):
        rights = None
        for each in read:
            if each == path or each in path.parents:
                raise UsageError(
                    f"--state {path}: expected a place outside of log directories, found that "
                    f"{each} is read as one"
                )
    else:
        local = as_local(path)
        try:
            exists = local.exists()
        except OSError as error:
            raise StateError(f"{path}: cannot be opened: {error.strerror}") from error
        if not exists:
            make_directory(local, writing_rights("--state", local, read))
        if not local.is_dir():
            raise StateError(
                f"{path}: expected the directory of a state, found no directory: the file of "
                "kdump scrub is not for runs on Spark"
            )
        rights = writing_rights("--state", local / MARKER, read)
    _check(path, rights)
    # Says before anything is read whether the state can be written.
    write_file(path / MARKER, json.dumps({_FIELD: _VERSION}).encode(), rights)
    return FleetState(path, rights, max_age_s, time.time_ns() // 1_000_000, version)


def check_visible(state: DirectoryState) -> None:
    """Raise StateError if this host does not see the directory of the state."""
    marker = state.top / MARKER
    if isinstance(marker, RemotePath):
        return
    with acting(state.rights):
        if not marker.exists():
            raise StateError(
                f"{marker}: expected the state, found none: executors must see it under the same "
                "path"
            )


def _check(path: AnyPath, rights: Rights | None) -> None:
    """Raise StateError if there is anything but a state of this version at ``path``."""
    try:
        found = json.loads(read_file(path / MARKER, rights))
    except VanishedError:
        if _is_empty(path, rights):
            return
        found = None
    except SourceError as error:
        raise StateError(str(error)) from error
    except ValueError:
        found = None
    version = found.get(_FIELD) if isinstance(found, dict) else None
    if type(version) is not int:
        raise StateError(
            f"{path}: expected the state of earlier runs or an empty directory, found another "
            "directory: name another one with --state"
        )
    if version > _VERSION:
        raise StateError(
            f"{path}: expected a state of version {_VERSION}, found version {version}: use the "
            "release of kdump that wrote it, or name another directory with --state"
        )


def _is_empty(path: AnyPath, rights: Rights | None) -> bool:
    try:
        with acting(rights), scan(path) as entries:
            return next(iter(entries), None) is None
    except FileNotFoundError:  # a prefix without objects
        return True
    except OSError as error:
        raise StateError(f"{path}: cannot be listed: {error.strerror or error}") from error


def _names(roots: Iterable[Root]) -> dict[AnyPath, str]:
    """Return the name of each log directory; of two with the same id, the second has its path."""
    names: dict[AnyPath, str] = {}
    for root in roots:
        if root.directory is None or root.directory.directory.path in names:
            continue
        path = root.directory.directory.path
        key = _key(root.directory.identity, path)
        name = _safe(key)
        names[path] = name if name not in names.values() else _safe(f"{key} {_text(path)}")
    return names


def _key(ids: MetaProperties | None, path: AnyPath) -> str:
    if ids is None or (ids.directory_id is None and ids.cluster_id is None):
        return f"path {_text(path)}"
    if ids.directory_id is not None:
        return ids.directory_id
    return f"{ids.cluster_id} {ids.node_id} {_text(path)}"


def _text(path: AnyPath) -> str:
    return str(path.absolute())


def _safe(text: str) -> str:
    """Return a name for a directory that stands for ``text``."""
    data = text.encode("utf-8", "surrogateescape")
    name = quote(data, safe="")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_HEAD]}-{blake2b(data, digest_size=16).hexdigest()}"
