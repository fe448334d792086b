"""What ``__remote_log_metadata`` says is in remote storage, and what ``verify`` makes of it.

Spec: ``RemoteLogMetadataCache``, ``UnifiedLog`` with remote storage (KIP-405); the offsets of the
fixture are those that its broker told.
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.audit.facts.remote_storage import RemoteStorage, ranges_text, remote_offsets
from kdump.storage.logdir import directory_name
from support import forge
from support.commands import kdump
from support.crashing.running import run
from support.fixtures_loader import ROOT, TIERED, copy_fixture

TOPIC = "__remote_log_metadata"
STARTED, FINISHED, DELETING, DELETED = range(4)
OTHER_ID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
OFFSETS = json.loads((ROOT / "brokers" / f"{TIERED[0]}.offsets.json").read_text())["tiered"]
#: The offsets of the fixture's topic that are in remote storage alone.
REMOTE = OFFSETS["start"], OFFSETS["local"] - 1


def uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(f"{text}==")


def place(topic_id: str, name: bytes = b"orders", partition: int = 3) -> bytes:
    return forge.uvarint(len(name) + 1) + name + uuid(topic_id) + struct.pack(">ib", partition, 0)


def segment_id(number: int, topic_id: str) -> bytes:
    return place(topic_id) + number.to_bytes(16, "big") + b"\0"


def copied(number: int, first: int, last: int, state: int, topic_id: str = forge.TOPIC_ID) -> bytes:
    """The first record of a segment, in the frame of its topic."""
    offsets = struct.pack(">qqiqq", first, last, 1, 5, 5)
    epochs = forge.uvarint(2) + struct.pack(">iqb", 0, first, 0)
    sizes = struct.pack(">i", 100) + b"\0" + struct.pack(">bb", state, 0)
    return b"\1\0\0" + segment_id(number, topic_id) + offsets + epochs + sizes


def update(number: int, state: int, topic_id: str = forge.TOPIC_ID) -> bytes:
    times = struct.pack(">iq", 1, 6) + b"\0"
    return b"\1\1\0" + segment_id(number, topic_id) + times + struct.pack(">bb", state, 0)


def removed(topic_id: str = forge.TOPIC_ID) -> bytes:
    return b"\1\2\0" + place(topic_id) + struct.pack(">iqbb", 1, 7, 0, 0)


def storage(directory: Path, values: Sequence[bytes]) -> RemoteStorage:
    batches = [forge.batch(at, [forge.record(value)]) for at, value in enumerate(values)]
    return RemoteStorage((forge.write_partition(directory, TOPIC, 0, {0: batches}),))


def ranges(remote: RemoteStorage, topic_id: str | None = forge.TOPIC_ID) -> object:
    return remote.ranges("orders", 3, topic_id)


def test_segments_are_remote_from_the_end_of_their_copy_to_their_removal(tmp_path: Path) -> None:
    values = [
        *(copied(1, 0, 9, STARTED), update(1, FINISHED)),
        *(copied(2, 10, 19, STARTED), update(2, FINISHED)),
        copied(3, 20, 29, STARTED),
        *(copied(4, 30, 39, FINISHED), copied(5, 40, 49, FINISHED), update(5, DELETING)),
        *(update(1, DELETING), update(1, DELETED), update(9, FINISHED), b"\1\x63\0", b""),
    ]
    remote = storage(tmp_path, values)
    assert ranges(remote) == ranges(remote, None) == ((10, 19), (30, 39))
    assert ranges(remote, OTHER_ID) == ()
    assert remote.ranges("orders", 4, forge.TOPIC_ID) == ()


def test_neighbours_and_overlaps_are_joined(tmp_path: Path) -> None:
    values = [copied(1, 0, 9, FINISHED), copied(3, 5, 14, FINISHED), copied(2, 15, 19, FINISHED)]
    assert ranges(storage(tmp_path, values)) == ((0, 19),)


def test_a_topic_that_was_deleted_has_nothing_there(tmp_path: Path) -> None:
    values = [
        copied(1, 0, 9, FINISHED),
        removed(),
        copied(1, 0, 4, FINISHED, OTHER_ID),
    ]
    remote = storage(tmp_path, values)
    assert ranges(remote) == ()
    assert ranges(remote, OTHER_ID) == ranges(remote, None) == ((0, 4),)


def test_topics_of_one_name_are_not_mixed(tmp_path: Path) -> None:
    values = [copied(1, 0, 9, FINISHED), copied(1, 0, 4, FINISHED, OTHER_ID)]
    remote = storage(tmp_path, values)
    assert (ranges(remote), ranges(remote, OTHER_ID)) == (((0, 9),), ((0, 4),))
    assert ranges(remote, None) == ()


def test_a_log_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    remote = storage(tmp_path, [copied(1, 0, 9, FINISHED), copied(2, 10, 19, FINISHED)])
    log = tmp_path / f"{TOPIC}-0" / f"{0:020d}.log"
    log.write_bytes(forge.flip(log.read_bytes(), log.stat().st_size - 1))
    assert ranges(remote) == ((0, 9),)
    assert RemoteStorage((tmp_path / "nowhere",)).ranges("orders", 3, None) == ()


@pytest.mark.parametrize(
    ("named", "log_start", "local_start", "expected"),
    [
        ([(0, 9), (20, 29)], 5, 25, ((5, 9), (20, 24))),
        ([(0, 9)], None, 5, ((0, 4),)),
        ([(0, 9)], 0, 0, ()),
        ([(0, 9)], 3, None, ((3, 9),)),
        ([], 3, 10, ((3, 9),)),
        ([], 10, 10, ()),
        ([], 12, 10, ()),
        ([], None, 10, ()),
        ([], 3, None, ()),
    ],
)
def test_what_is_remote_alone_lies_between_the_log_start_and_the_first_segment(
    named: list[tuple[int, int]],
    log_start: int | None,
    local_start: int | None,
    expected: object,
    tmp_path: Path,
) -> None:
    remote = storage(
        tmp_path, [copied(number, *pair, FINISHED) for number, pair in enumerate(named)]
    )
    name = directory_name(tmp_path / "orders-3")
    found = remote_offsets(remote, name, forge.TOPIC_ID, log_start, local_start)
    assert found == expected


def test_few_ranges_are_spelled_out() -> None:
    assert ranges_text(((0, 1), (3, 4))) == "0..1, 3..4"
    assert ranges_text(((0, 1), (3, 4), (6, 6), (8, 9))) == "0..1, 3..4, 6..6 and 1 more"


def test_the_broker_told_the_same_of_the_fixture() -> None:
    logs = (ROOT / "brokers" / TIERED[0]).glob(f"{TOPIC}-*")
    ((first, last),) = RemoteStorage(tuple(logs)).ranges("tiered", 0, None)
    assert first <= OFFSETS["start"] and last == OFFSETS["remote"] == OFFSETS["local"] - 1


def test_verify_says_what_is_in_remote_storage(tmp_path: Path) -> None:
    data = copy_fixture(TIERED[0], tmp_path / "data")
    found = kdump("verify", data)
    assert found.code == 0
    (line,) = (line for line in found.of("finding") if line["code"] == "records-in-remote-storage")
    assert line["path"] == str(data / "tiered-0") and line["severity"] == "info"
    assert line["offsets"] == {"first": REMOTE[0], "last": REMOTE[1]}
    assert {line["severity"] for line in found.of("finding")} == {"info"}
    sentence = f"offsets {REMOTE[0]}..{REMOTE[1]} in remote storage, not read"
    for path in (data, data / "tiered-0"):
        for depth in ("--quick", "--deep"):
            shown = " ".join(run(["verify", depth, str(path)]).out.split())
            assert f"remote {'tiered-0: ' if path == data else ''}{sentence}" in shown


def test_without_a_segment_remote_records_are_not_lost(tmp_path: Path) -> None:
    data = copy_fixture(TIERED[0], tmp_path / "data")
    for path in (data / "tiered-0").glob(f"*{OFFSETS['local']}.*"):
        path.unlink()
    found = kdump("verify", data / "tiered-0")
    assert found.code == 4
    gone = {"first": OFFSETS["local"], "last": OFFSETS["end"] - 1}
    by_code = {line["code"]: line["offsets"] for line in found.of("finding")}
    for code in ("segments-gone", "recovery-point-beyond-end", "high-watermark-beyond-end"):
        assert by_code[code] == gone
    assert by_code["records-in-remote-storage"] == {"first": REMOTE[0], "last": REMOTE[1]}
    # The broker begins at the log start, and serves nothing past its end.
    (forecast,) = found.of("forecast")
    assert forecast["log_end_offset"] == OFFSETS["start"]
    assert forecast["lost"]["sound"] == REMOTE[1] + 1 - REMOTE[0]
    assert (forecast["lost"]["first_offset"], forecast["lost"]["last_offset"]) == REMOTE


def test_without_the_log_of_remote_storage_the_checkpoint_decides(tmp_path: Path) -> None:
    data = copy_fixture(TIERED[0], tmp_path / "data")
    for path in data.glob(f"{TOPIC}-*"):
        shutil.rmtree(path)
    (line,) = (
        line
        for line in kdump("verify", data / "tiered-0").of("finding")
        if line["code"] == "records-in-remote-storage"
    )
    assert line["offsets"] == {"first": REMOTE[0], "last": REMOTE[1]}
