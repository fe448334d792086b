"""What ``space`` counts: the bytes on disk, each once, and what belongs to no log."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.sizes import measure
from kdump.commands.space import space
from kdump.errors import SourceError, VanishedError
from kdump.storage.access import read_end
from kdump.storage.liveness import Process
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.ui import exits
from support.commands import Ran, kdump
from support.crashing.places import UnmountableError, xfs
from support.crashing.running import run
from support.fixtures_loader import copy_fixture, few_first
from support.forge import TOPIC_ID, batch, partition_metadata, record, write_partition
from support.stand_in import stand_in

pytestmark = pytest.mark.once

BLOCK = 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def allocated(*tops: Path) -> int:
    files = (path for top in tops for path in top.rglob("*") if path.is_file())
    return sum(path.stat().st_blocks * 512 for path in files)


def topics(ran: Ran) -> dict[str, dict[str, Any]]:
    return {line["topic"]: line for line in ran.of("topic")}


def leftovers(ran: Ran) -> dict[str, tuple[int, int]]:
    return {line["kind"]: (line["bytes"], line["places"]) for line in ran.of("leftovers")}


def summary(ran: Ran) -> dict[str, Any]:
    (line,) = ran.of("summary")
    return line


@pytest.mark.parametrize("name", few_first())
def test_all_bytes_of_partitions_count_once(name: str, tmp_path: Path) -> None:
    data = copy_fixture(name, tmp_path / "data")
    partitions = [path for path in data.iterdir() if path.is_dir()]
    ran = kdump("space", data, data, partitions[0], searching=False)
    assert ran.code == exits.OK
    assert summary(ran)["bytes"] == allocated(*partitions)
    found = topics(ran)
    assert sum(line["partitions"] for line in found.values()) == len(partitions)
    of_topics = sum(line["bytes"] for line in found.values())
    of_others = sum(size for size, _ in leftovers(ran).values())
    assert of_topics + of_others == allocated(*partitions)
    (system,) = ran.of("file_system")
    told = os.statvfs(data)
    assert system["total_bytes"] == told.f_blocks * told.f_frsize


def test_a_file_with_another_hard_link_frees_nothing(data: Path, tmp_path: Path) -> None:
    before = topics(kdump("space", data, searching=False))["codec-none"]
    log = data / "codec-none-0" / f"{0:020}.log"
    os.link(log, tmp_path / "backup")
    after = topics(kdump("space", data, searching=False))["codec-none"]
    size = log.stat().st_blocks * 512
    assert after["linked_bytes"] == size
    assert after["bytes"] == before["bytes"] - size


def test_holes_take_no_space(data: Path) -> None:
    before = summary(kdump("space", data, searching=False))["bytes"]
    os.truncate(data / "codec-none-0" / f"{0:020}.index", 10 << 20)
    assert summary(kdump("space", data, searching=False))["bytes"] - before <= BLOCK


def test_what_belongs_to_no_log_is_named_by_its_kind(data: Path) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    partition = data / "codec-none-0"
    for suffix in (".deleted", ".cleaned", ".swap", ".tmp"):
        name = "leader-epoch-checkpoint" if suffix == ".tmp" else f"{900:020}.log"
        place = data / "codec-gzip-0" if suffix == ".cleaned" else partition
        (place / f"{name}{suffix}").write_bytes(bytes(BLOCK))
    (partition / ".kdump" / "0a").mkdir(parents=True)
    (partition / ".kdump" / "0a" / "tail").write_bytes(bytes(2 * BLOCK))
    (data / "heap.hprof").write_bytes(bytes(5 * BLOCK))
    (data / "lost+found").mkdir()
    (data / "lost+found" / "#1").write_bytes(bytes(3 * BLOCK))
    for number, kind in enumerate(("delete", "future")):
        write_partition(data, f"gone-{number}", 0, {0: [batch(0, [record()])]}).rename(
            data / f"gone-{number}-0.{unique}-{kind}"
        )
    found = leftovers(kdump("space", data, searching=False))
    assert {
        kind: found[kind] for kind in ("deleted", "cleaned", "swap", "temporary")
    } == dict.fromkeys(("deleted", "cleaned", "swap", "temporary"), (BLOCK, 1))
    assert found["backups"] == (2 * BLOCK, 1)
    assert found["foreign"] == (8 * BLOCK, 2)
    assert found["delete-directories"][1] == found["future-directories"][1] == 1


def test_cleaned_files_beside_swap_files_are_one_thing(data: Path) -> None:
    """Startup removes both; without the first it would take the second for the whole log."""
    for suffix in (".cleaned", ".swap"):
        (data / "codec-none-0" / f"{900:020}.log{suffix}").write_bytes(bytes(BLOCK))
    found = leftovers(kdump("space", data, searching=False))
    assert "cleaned" not in found
    assert found["cleaned-beside-swap"] == (BLOCK, 1)


@pytest.mark.parametrize(
    ("topic_id", "kind"),
    [
        (None, "stray-directories-in-doubt"),
        (TOPIC_ID, "stray-directories-in-doubt"),  # no record of the metadata log names it
    ],
)
def test_a_stray_directory_may_be_the_only_replica(
    topic_id: str | None, kind: str, data: Path
) -> None:
    made = write_partition(data, "lost", 0, {0: [batch(0, [record()])]})
    (made / "partition.metadata").unlink()
    if topic_id is not None:
        (made / "partition.metadata").write_bytes(partition_metadata(topic_id))
    made.rename(data / "lost-0.0123456789abcdef0123456789abcdef-stray")
    found = leftovers(kdump("space", data, searching=False))
    assert found[kind][1] == 1
    ran = run(["space", str(data)], searching=False)
    assert "may be the only replica" in " ".join(ran.out.split())


def test_what_cannot_be_listed_is_said(data: Path) -> None:
    shutil.rmtree(data / "codec-none-0")
    (data / "codec-none-0").symlink_to(data / "nowhere")
    ran = kdump("space", data, searching=False)
    if ran.code == exits.OK:
        assert "codec-none" not in topics(ran)
    else:
        assert ran.code == exits.INCOMPLETE
        assert [line["path"] for line in ran.of("unreadable")] == [str(data / "codec-none-0")]


def test_a_segment_is_no_place_to_measure(data: Path) -> None:
    ran = run(["space", str(data / "codec-none-0" / f"{0:020}.log")], searching=False)
    assert ran.code == exits.USAGE
    assert "expected a log directory or a partition directory, found a segment" in ran.err


def test_text_says_where_configs_are_from(data: Path, tmp_path: Path) -> None:
    text = " ".join(run(["space", str(data)], searching=False).out.split())
    assert "what it does not set has Kafka's default (7 days, " in text
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\n")
    text = " ".join(run(["space", "--config", str(config)], searching=False).out.split())
    assert "Kafka's default" not in text
    assert "nothing was changed" in text
    shutil.rmtree(data / "__cluster_metadata-0")
    text = " ".join(run(["space", str(data)], searching=False).out.split())
    assert "no metadata log in sight has the configs, or" in text


def test_without_the_metadata_log_nothing_counts_as_due(data: Path, tmp_path: Path) -> None:
    """The file of a broker does not have the configs of topics."""
    shutil.rmtree(data / "__cluster_metadata-0")
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\nlog.retention.ms=1\n")
    ran = kdump("space", "--config", config, searching=False)
    due = {line["topic"]: line["due_bytes"] for line in ran.of("topic") if line["due_bytes"]}
    assert list(due) == ["deleted-records"]  # by its log start offset
    policies = {line["topic"]: line["cleanup_policy"] for line in ran.of("topic")}
    assert policies["__consumer_offsets"] == "compact"
    assert policies["codec-none"] is None


def test_what_looks_like_a_partition_is_no_foreign_file(data: Path) -> None:
    (data / "codec-zstd-0").rename(data / "codec-zstd-0.bak")
    (data / "remote-log-index-cache").mkdir()
    (data / "remote-log-index-cache" / "x.index").write_bytes(bytes(BLOCK))
    found = leftovers(kdump("space", data, searching=False))
    assert found["unnamed-partitions"][1] == 1
    assert found["remote-index-cache"] == (BLOCK, 1)
    assert "foreign" not in found
    ran = run(["space", str(data)], searching=False)
    assert "may be the only copy" in " ".join(ran.out.split())


def test_what_a_move_sets_aside_is_a_backup(data: Path) -> None:
    aside = data / "__cluster_metadata-0.kdump-0123abcd-codec-zstd-0-stray"
    (data / "codec-zstd-0").rename(aside)
    size = allocated(aside)
    for path in (data, aside):
        found = leftovers(kdump("space", path, searching=False))
        assert found["backups"] == (size, 1)
        assert "unnamed-partitions" not in found
    ran = run(["space", str(data)], searching=False)
    text = " ".join(ran.out.split())
    assert "kdump undo lists them" in text
    assert "may be the only copy" not in text
    ran = run(["trim", "--leftovers", str(data), "--apply"], searching=False)
    assert "backups of repairs and moves" in " ".join(ran.out.split())
    assert allocated(aside) == size


def test_files_inside_a_partition_that_are_not_kafkas(data: Path) -> None:
    before = topics(kdump("space", data, searching=False))["codec-none"]
    partition = data / "codec-none-0"
    (partition / "heap.hprof").write_bytes(bytes(3 * BLOCK))
    (partition / "sub").mkdir()
    (partition / "sub" / "copy").write_bytes(bytes(BLOCK))
    ran = kdump("space", data, searching=False)
    assert leftovers(ran)["foreign"] == (4 * BLOCK, 1)
    assert topics(ran)["codec-none"]["bytes"] == before["bytes"]


@pytest.mark.parametrize(
    ("order", "field", "reverse"),
    [
        ("bytes", "bytes", True),
        ("name", "topic", False),
        ("due", "due_bytes", True),
        ("growth", "day_bytes", True),
        ("age", "oldest_ms", False),
    ],
)
def test_topics_are_in_the_order_that_is_asked_for(
    order: str, field: str, reverse: bool, data: Path
) -> None:
    lines = list(kdump("space", "--sort", order, data, searching=False).of("topic"))
    values = [line[field] for line in lines if line[field] is not None]
    assert values == sorted(values, reverse=reverse)
    assert len({*values}) > 1
    assert [line for line in lines if line[field] is None] == lines[len(values) :]
    text = run(["space", "--sort", order, str(data)], searching=False).out
    shown = [line.split()[1] for line in text.splitlines() if line.startswith("  TOPIC ")]
    assert shown == [line["topic"] for line in lines]
    known = kdump("space", data, searching=False)
    assert {line["topic"] for line in known.of("topic")} == {line["topic"] for line in lines}


def test_links_are_not_followed_out_of_the_directory(data: Path, tmp_path: Path) -> None:
    before = summary(kdump("space", data, searching=False))["bytes"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(bytes(50 * BLOCK))
    (data / "codec-none-0" / ".kdump").symlink_to(elsewhere)
    (data / "link").symlink_to(elsewhere)
    (data / "loop").symlink_to(data)
    ran = kdump("space", data, searching=False)
    assert (ran.code, summary(ran)["bytes"]) == (exits.OK, before)


def test_copies_by_hard_links_count_once_and_are_said(data: Path) -> None:
    shutil.copytree(data / "codec-none-0", data / "backup", copy_function=os.link)
    ran = kdump("space", data, searching=False)
    line = topics(ran)["codec-none"]
    assert line["bytes"] == 0
    assert summary(ran)["linked_bytes"] == 2 * line["linked_bytes"]
    assert "linked" in run(["space", str(data)], searching=False).out


def test_removed_files_that_a_process_has_open_are_named(data: Path) -> None:
    """Beside a stand-in of a broker, from whose log directory someone removed two files."""
    logs = [data / "codec-none-0" / f"{0:020}.log", data / "codec-lz4-0" / f"{0:020}.log"]
    size = sum(log.stat().st_blocks * 512 for log in logs)
    with stand_in(data, *logs) as pid:
        for log in logs:
            log.unlink()
        ran = kdump("space", data)
        text = " ".join(run(["space", str(data)], searching=True).out.split())
        chosen = kdump("space", "--topic", "codec-none", data)
    (line,) = ran.of("removed_files")
    assert (line["pid"], line["files"], line["bytes"]) == (pid, 2, size)
    assert summary(ran)["removed_bytes"] == size
    assert f"removed files that process {pid} (python" in text
    assert f"still has open: free once it ends or closes them; {logs[1]} and 1 more" in text
    assert list(chosen.of("removed_files")) == []
    assert list(kdump("space", data).of("removed_files")) == []


def test_processes_that_cannot_be_inspected_are_counted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = Process(4, "java")
    monkeypatch.setattr(space, "unlinked_files", lambda _: ((), (hidden,)))
    assert summary(kdump("space", data, searching=False))["uninspected"] == [4]
    text = " ".join(run(["space", str(data)], searching=False).out.split())
    assert "1 process that this user may not inspect" in text


def test_a_log_directory_inside_another_counts_once(data: Path) -> None:
    inner = copy_fixture("4.3.1/killed", data / "inner")
    whole = allocated(*(path for path in data.iterdir() if path.is_dir() and path != inner))
    inside = allocated(*(path for path in inner.iterdir() if path.is_dir()))
    ran = kdump("space", data, inner, searching=False)
    assert summary(ran)["bytes"] == whole + inside


def test_a_time_index_that_cannot_be_read_hides_nothing_else(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = topics(kdump("space", data, searching=False))["codec-none"]

    def read(path: AnyPath, most_bytes: int) -> tuple[int, bytes]:
        if path.parent.name == "codec-none-0":
            raise SourceError(path, f"{path}: cannot be read: Permission denied")
        return read_end(path, most_bytes)

    monkeypatch.setattr(measure, "read_end", read)
    ran = kdump("space", data, searching=False)
    assert ran.code == exits.INCOMPLETE
    line = topics(ran)["codec-none"]
    assert line["bytes"] == before["bytes"]
    assert line["held"][0]["by"] == "unknown"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_files_that_vanish_meanwhile_are_listed_again(
    times: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [times]

    def read(path: AnyPath, most_bytes: int) -> tuple[int, bytes]:
        if path.parent.name == "codec-none-0" and left[0]:
            left[0] -= 1
            raise VanishedError(path, f"{path}: it vanished")
        return read_end(path, most_bytes)

    monkeypatch.setattr(measure, "read_end", read)
    ran = kdump("space", "--jobs", "1", data, searching=False)
    assert ran.code == (exits.OK if times < 3 else exits.INCOMPLETE)
    assert "codec-none" in topics(ran)


def test_a_last_segment_of_which_the_end_is_unknown_is_no_future(data: Path) -> None:
    log = max((data / "codec-none-0").glob("*.log"))
    log.write_bytes(os.urandom(log.stat().st_size))
    config = data.parent / "server.properties"
    config.write_text(f"log.dirs={data}\n")
    line = topics(kdump("space", data, searching=False))["codec-none"]
    assert line["next_due_ms"] is None


def test_preallocated_room_does_not_count_for_retention_by_size(tmp_path: Path) -> None:
    """Three segments, of which the last has room for a megabyte."""
    batches = {base: [batch(base, [record(bytes(900))])] for base in range(3)}
    made = write_partition(tmp_path, "t", 0, batches)
    last = made / f"{2:020}.log"
    size = last.stat().st_size
    task = measure.SpaceTask(
        made,
        directory_name(made),
        RetentionConfigs(True, False, -1, 2 * size),
        3,
        None,
        False,
        0,
        0,
    )
    assert measure.measure(task).due_bytes == measure.measure(task).due_bytes > 0
    os.truncate(last, 1 << 20)
    due = measure.measure(task).due
    assert due is not None
    assert due.count == 1


@pytest.mark.parametrize(("free_bytes", "free_files"), [(0, 1000), (1 << 30, 0)])
def test_a_full_disk_is_the_first_word(
    free_bytes: int, free_files: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = free_bytes // BLOCK
    status = [BLOCK, BLOCK, 1 << 18, blocks, blocks, 1 << 20, free_files, free_files, 0, 255]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(status))
    ran = run(["space", str(data)], searching=False)
    assert ran.out.startswith("DISK FULL: ")
    assert "kdump next-start says whether a broker starts" in " ".join(ran.out.split())
    assert ran.code == exits.OK


def test_extents_that_files_share_free_nothing(tmp_path: Path) -> None:
    """On XFS, beside a clone of a log; a part of which has other extents since."""
    try:
        with xfs(tmp_path) as disk:
            data = copy_fixture("4.3.1/clean", disk / "data")
            log = data / "codec-none-0" / f"{0:020}.log"
            with log.open("ab") as file:
                file.write(os.urandom(1 << 20))
            clone = disk / "clone"
            os.sync()
            before = topics(kdump("space", data, searching=False))["codec-none"]
            subprocess.run(["cp", "--reflink=always", log, clone], check=True)
            os.sync()
            ran = kdump("space", data, searching=False)
            shared = topics(ran)["codec-none"]
            allocated = log.stat().st_blocks * 512
            assert shared["linked_bytes"] == summary(ran)["linked_bytes"] == allocated
            assert shared["bytes"] == before["bytes"] - allocated
            words = " ".join(run(["space", str(data)], searching=False).out.split())
            assert "in extents that files share (reflinks)" in words
            with clone.open("r+b") as file:
                file.write(bytes(1 << 19))
            os.sync()
            line = topics(kdump("space", data, searching=False))["codec-none"]
            assert line["linked_bytes"] == allocated - (1 << 19)
            clone.unlink()
            os.sync()
            last = topics(kdump("space", data, searching=False))["codec-none"]
            assert (last["bytes"], last["linked_bytes"]) == (before["bytes"], 0)
    except UnmountableError as error:
        pytest.skip(f"no XFS here: {error}")
