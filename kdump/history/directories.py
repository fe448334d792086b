"""Which directory of the state a root is, also after a move to another mount.

A log directory is known by its ``directory.id``. Before Kafka 3.7 it has none: it is then one of
its cluster and node, at its path, or at a path where that node has no log directory any more. What
has no ids is known by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.audit.targets.scope import wrong_paths
from kdump.audit.targets.target import Root
from kdump.format.properties import MetaProperties
from kdump.history.state import ScrubState
from kdump.storage.logdir import LogDirectory, is_log_directory
from kdump.storage.paths import AnyPath


def register_directories(state: ScrubState, roots: Iterable[Root]) -> list[int | None]:
    """Return the number of each root in the state, which gets those that it does not have.

    It is None for a wrong path at which no run has found anything: a mistyped path is no directory.
    """
    return list(_register(state, roots))


def knows_any(state: ScrubState, roots: Iterable[Root]) -> bool:
    """Return whether the state has one of ``roots``."""
    return any(find_root(state, root) is not None for root in roots)


def _register(state: ScrubState, roots: Iterable[Root]) -> Iterator[int | None]:
    numbers = set[int]()
    for root in roots:
        ids, path = _ids(root), root.path.absolute()
        number = find_directory(state, ids, path)
        if number is None and wrong_paths([root]):
            yield None
            continue
        if number is None or number in numbers:
            key = _key(ids, path)
            if number in numbers:  # a copy of another root
                key = f"{key} {path}"
            number = state.find_directory(key) or state.add_directory(key, path)
        elif ids is None:
            state.move_directory(number, None, path)
        else:
            state.move_directory(number, _key(ids, path), path)
        numbers.add(number)
        yield number


def find_root(state: ScrubState, root: Root) -> int | None:
    """Return the number of a root, or of a partition's log directory; None if both are new."""
    number = find_directory(state, _ids(root), root.path.absolute())
    if number is None and root.directory is not None:
        above = root.directory
        number = find_directory(state, above.identity, above.directory.path.absolute())
    return number


def find_directory(state: ScrubState, ids: MetaProperties | None, path: AnyPath) -> int | None:
    """Return the number of the directory with these ids, now at ``path``; None if it is new."""
    number = state.find_directory(_key(ids, path))
    if number is not None:
        return number
    if ids is None:  # they may have been lost
        return next((each for each, _, at in state.directories() if str(at) == str(path)), None)
    if ids.directory_id is None:
        node = _node(ids)
        for each, key, at in state.directories():
            if key.startswith(node) and not is_log_directory(at):
                return each
    return None


def _ids(root: Root) -> MetaProperties | None:
    if isinstance(root.content, LogDirectory) and root.directory is not None:
        return root.directory.identity
    return None


def _key(ids: MetaProperties | None, path: AnyPath) -> str:
    if ids is None:
        return f"path {path}"
    if ids.directory_id is not None:
        return f"directory {ids.directory_id}"
    return f"{_node(ids)}{path}"


def _node(ids: MetaProperties) -> str:
    return f"node {ids.cluster_id} {ids.node_id} "
