"""Damage to the disk of a controller: its log, its small files, its ids.

Spec: the sizes of batches in ``__cluster_metadata-0``. Imports nothing of kdump.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

METADATA = "__cluster_metadata-0"
OTHER_ID = "otherOtherOtherOther1g"

Damage = Callable[[Path], object]
"""Changes the log directory of a controller."""


def last_log(directory: Path) -> Path:
    """The last segment of the metadata log."""
    return max((directory / METADATA).glob("*.log"))


def boundaries(content: bytes) -> list[int]:
    """The positions at which batches begin, and the end of the last one."""
    found = [0]
    while found[-1] + 12 <= len(content):
        size = int.from_bytes(content[found[-1] + 8 : found[-1] + 12], "big")
        if not size:
            break
        found.append(found[-1] + 12 + size)
    return found


def cut_batches(count: int) -> Damage:
    """Without the last ``count`` batches of the last segment."""

    def damage(directory: Path) -> None:
        log = last_log(directory)
        content = log.read_bytes()
        log.write_bytes(content[: boundaries(content)[-1 - count]])

    return damage


def tear_batch(count: int) -> Damage:
    """Ended inside the batch that has ``count`` others after it."""

    def damage(directory: Path) -> None:
        log = last_log(directory)
        content = log.read_bytes()
        log.write_bytes(content[: boundaries(content)[-2 - count] + 40])

    return damage


def flip_byte(count: int) -> Damage:
    """A byte of the batch that has ``count`` others after it in the last segment."""

    def damage(directory: Path) -> None:
        log = last_log(directory)
        content = bytearray(log.read_bytes())
        content[boundaries(bytes(content))[-2 - count] + 62] ^= 0x40
        log.write_bytes(content)

    return damage


def reseal_batch(count: int, at: int = 60) -> Damage:
    """A changed byte, ``at``, in the same batch as of ``flip_byte``; its checksum matches."""

    def damage(directory: Path) -> None:
        log = last_log(directory)
        content = bytearray(log.read_bytes())
        start, end = boundaries(bytes(content))[-2 - count :][:2]
        content[start + at] ^= 0x01
        content[start + 17 : start + 21] = crc32c(content[start + 21 : end]).to_bytes(4, "big")
        log.write_bytes(content)

    return damage


def remove_quorum_state(directory: Path) -> None:
    (directory / METADATA / "quorum-state").unlink()


def empty_quorum_state(directory: Path) -> None:
    (directory / METADATA / "quorum-state").write_bytes(b"")


def garble_quorum_state(directory: Path) -> None:
    (directory / METADATA / "quorum-state").write_bytes(b'{"leaderId":1,')


def vote_for_other_directory(directory: Path) -> None:
    """The node voted for itself, when it had another directory id."""
    node = int(_property(directory, "node.id"))
    state = {
        "leaderId": -1,
        "leaderEpoch": 90,
        "votedId": node,
        "votedDirectoryId": OTHER_ID,
        "data_version": 1,
    }
    (directory / METADATA / "quorum-state").write_text(json.dumps(state))


def remove_log(directory: Path) -> None:
    shutil.rmtree(directory / METADATA)


def remove_log_files(directory: Path) -> None:
    """Segments and indexes; snapshots and small files stay."""
    for path in (directory / METADATA).iterdir():
        if path.suffix in (".log", ".index", ".timeindex"):
            path.unlink()


def remove_everything(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def remove_meta(directory: Path) -> None:
    (directory / "meta.properties").unlink()


def change_cluster(directory: Path) -> None:
    _change(directory, "cluster.id", OTHER_ID)


def change_directory_id(directory: Path) -> None:
    _change(directory, "directory.id", OTHER_ID)


def damage_snapshot(directory: Path) -> None:
    """A byte of the newest snapshot."""
    path = max((directory / METADATA).glob("*.checkpoint"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.chmod(0o600)
    path.write_bytes(content)


def _property(directory: Path, name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", (directory / "meta.properties").read_text(), re.M)
    assert found is not None
    return found[1]


def _change(directory: Path, name: str, value: str) -> None:
    path = directory / "meta.properties"
    text, count = re.subn(rf"^{name}=.*$", f"{name}={value}", path.read_text(), flags=re.M)
    assert count == 1
    path.write_text(text)
