"""Missing offsets: what the log itself shows of compaction, of loss, and of changed offsets."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.format.batch import RecordBatch
from kdump.ui import exits
from support import memory
from support.commands import Ran, kdump
from support.damaged import FIRST, LAST, batches, name
from support.fixtures_loader import copy_fixture
from support.forge import batch, checkpoint, flip, offset_index, record
from support.recipes_directory import RECIPES, sent

BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def finding(recipe: str, directory: Path) -> dict[str, Any]:
    """The one finding above info that ``verify`` has of a recipe."""
    BY_NAME[recipe].write(directory)
    ran = kdump("verify", directory, searching=False)
    (found,) = (
        finding for finding in ran.of("finding") if finding["severity"] in ("error", "warning")
    )
    assert ran.code == (exits.PROBLEMS if found["severity"] == "error" else exits.OK)
    return found


@pytest.mark.parametrize(
    ("recipe", "code", "offsets", "found"),
    [
        (
            "hole-unknown-jump",
            "records-missing",
            (80, 99),
            "an end at 80: the sequence of producer 7 jumps from 79 to 100 at offset 100",
        ),
        (
            "hole-unknown-goes-on",
            "batch-offset-changed",
            (80, 99),
            "an end at 80: the sequence of producer 7 continues after them",
        ),
        ("hole-unknown", "offsets-missing", (80, 99), "an end at 80"),
        (
            "hole-jump",
            "segments-hole",
            (80, 99),
            "an end at 80: the sequence of producer 7 jumps from 79 to 100 at offset 100",
        ),
        (
            "hole-unknown-inside",
            "records-missing",
            (50, 59),
            "60: the sequence of producer 7 jumps from 49 to 60 at offset 60",
        ),
        ("hole-inside", "batches-hole", (30, 39), "40"),
        (
            "last-offset-moved",
            "batch-offset-changed",
            (120, 119 + (1 << 20)),
            f"{120 + (1 << 20)}: the sequence of producer 7 continues after them",
        ),
    ],
)
def test_a_gap_is_named_by_what_speaks_for_it(
    recipe: str, code: str, offsets: tuple[int, int], found: str, tmp_path: Path
) -> None:
    gap = finding(recipe, tmp_path)
    assert gap["code"] == code
    assert (gap["offsets"]["first"], gap["offsets"]["last"]) == offsets
    assert gap["detail"]["found"] == found


@pytest.mark.parametrize("known", [True, False], ids=["never-compacted", "unknown"])
@pytest.mark.parametrize(
    "order",
    [(0, 1, 4, 3, 2, 5), (0, 1, 5, 2, 3, 4, 5, 6)],
    ids=["swapped", "a copy ahead"],
)
def test_offsets_that_are_elsewhere_in_the_segment_are_not_missing(
    order: tuple[int, ...], known: bool, tmp_path: Path
) -> None:
    partition = BY_NAME["hole-inside" if known else "hole-unknown"].write(tmp_path)
    sound = batches(FIRST)
    for suffix in (".log", ".index", ".timeindex"):
        (partition / name(LAST, suffix)).unlink(missing_ok=True)
    log = b"".join(sound[number] for number in order)
    (partition / name(FIRST, ".log")).write_bytes(log)
    ran = kdump("verify", tmp_path if known else partition, searching=False)
    found = {finding["code"] for finding in ran.of("finding")}
    assert "offsets-not-increasing" in found
    assert not found & {"batches-hole", "records-missing", "offsets-missing", "segments-hole"}


def test_a_copied_partition_is_verified_by_its_log(tmp_path: Path) -> None:
    """Without a log directory nothing is known of the topic, and the middle segment is gone."""
    partition = BY_NAME["hole-unknown-jump"].write(tmp_path)
    assert not (tmp_path / "meta.properties").exists()
    ran = kdump("verify", partition, searching=False)
    assert ran.code == exits.PROBLEMS
    assert "records-missing" in {finding["code"] for finding in ran.of("finding")}


def test_what_nothing_decides_is_no_all_clear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = BY_NAME["hole-unknown"].write(tmp_path)
    assert main(["verify", "--progress", "none", str(partition)]) == exits.OK
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("WARNING       Records may be missing: offsets are missing. Startup ")


def test_the_quick_pass_does_not_guess(tmp_path: Path) -> None:
    partition = BY_NAME["hole-unknown-jump"].write(tmp_path)
    ran = kdump("verify", "--quick", tmp_path, searching=False)
    assert ran.code == exits.OK
    (found,) = (finding for finding in ran.of("finding") if finding["severity"] == "warning")
    assert found["code"] == "offsets-missing"
    assert found["detail"]["found"] == "an end at 80; --quick reads the ends of logs alone"
    assert found["remedy"] == ["kdump", "verify", str(partition)]


def test_the_quick_pass_knows_what_the_ends_of_logs_show(tmp_path: Path) -> None:
    BY_NAME["hole-unknown-cleaned"].write(tmp_path)
    assert missing(tmp_path, "--quick") == ["segments-gap"]


def test_what_batches_decide_is_not_reported_before_they_are_read(tmp_path: Path) -> None:
    """Compaction shows in the first batch alone, which the quick pass does not come by."""
    rest = [record() for _ in range(9)]
    large = [batch(10 * n, [record(b"value" * 60_000), *rest]) for n in range(1, 8)]
    first = [batch(0, [record(offset_delta=9)]), *large]
    partition = BY_NAME["hole-unknown"].write(tmp_path)
    (partition / name(FIRST, ".log")).write_bytes(b"".join(first))
    last = len(b"".join(first[:-1]))
    (partition / name(FIRST, ".index")).write_bytes(offset_index([(79, last)]))
    assert missing(tmp_path, "--quick") == ["offsets-missing"]
    assert missing(tmp_path) == ["segments-gap"]


def missing(directory: Path, *options: str) -> list[str]:
    ran = kdump("verify", *options, directory, searching=False)
    named = ("segments-gap", "offsets-missing")
    return [finding["code"] for finding in ran.of("finding") if finding["code"] in named]


def test_many_gaps_of_a_topic_that_was_never_compacted_are_counted(tmp_path: Path) -> None:
    recipe = BY_NAME["hole-inside"]
    partition = recipe.write(tmp_path)
    rare = [batch for number in range(12) for batch in batches(20 * number, 1)]
    (partition / name(LAST, ".log")).unlink()
    (partition / name(FIRST, ".log")).write_bytes(b"".join(rare))
    ran = kdump("verify", tmp_path, searching=False)
    found = [finding for finding in ran.of("finding") if finding["code"] == "batches-hole"]
    assert (len(found), found[-1]["repeats"]) == (8, 3)


def test_two_producers_of_which_one_was_idle(tmp_path: Path) -> None:
    """The one that goes on without a break is no sign of a changed offset beside one that jumps."""
    other = batch(110, [record()], producer_id=8, producer_epoch=0, base_sequence=1)
    first = [
        *sent(0, 7, 0),
        batch(70, [record()], producer_id=8, producer_epoch=0, base_sequence=0),
    ]
    last = [*sent(100, 1, 100), other]
    recipe = BY_NAME["hole-unknown"]
    partition = recipe.write(tmp_path)
    for base, pieces in ((FIRST, first), (LAST, last)):
        (partition / name(base, ".log")).write_bytes(b"".join(pieces))
    ran = kdump("verify", partition, searching=False)
    codes = {finding["code"] for finding in ran.of("finding")}
    assert "records-missing" in codes
    assert "batch-offset-changed" not in codes


def test_the_report_says_what_is_lost_and_what_to_choose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = BY_NAME["hole-jump"].write(tmp_path)
    assert main(["verify", "--progress", "none", str(partition)]) == exits.PROBLEMS
    text = capsys.readouterr().out
    assert "lost        at most 20 records: 80..99" in text
    assert "choose      no other replica, by the metadata log" in text
    assert "nothing on this disk holds the records" in text
    assert main(["verify", "--quiet", "--progress", "none", str(tmp_path)]) == exits.PROBLEMS
    assert "segments-hole" in capsys.readouterr().out


def test_a_gap_is_reported_from_the_start_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator deleted the records before the start: of them nothing is missing."""
    partition = BY_NAME["hole"].write(tmp_path)
    start = checkpoint([("hole", 0, 90)])
    (tmp_path / "log-start-offset-checkpoint").write_bytes(start)
    assert main(["verify", "--progress", "none", str(partition)]) == exits.PROBLEMS
    text = capsys.readouterr().out
    assert "lost        at most 10 records: 90..99" in text


def test_a_last_segment_that_is_gone_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoints of a clean stop say where the log ended; a bare copy has an epoch alone."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    partition = data / "codec-none-0"
    *_, last = sorted(partition.glob("*.log"))
    for path in partition.glob(f"{last.stem}.*"):
        path.unlink()
    ran = kdump("verify", data, searching=False)
    errors = [finding for finding in ran.of("finding") if finding["severity"] == "error"]
    assert {finding["code"] for finding in errors} == {
        "recovery-point-beyond-end",
        "high-watermark-beyond-end",
    }
    (lost,) = (
        forecast["lost_now"] for forecast in ran.of("forecast") if forecast["lost_now"]["records"]
    )
    end = 1 + max(finding["offsets"]["last"] for finding in errors)
    assert (lost["first_offset"], lost["last_offset"]) == (int(last.stem), end - 1)
    assert ran.code == exits.PROBLEMS
    assert main(["verify", "--progress", "none", str(data)]) == exits.PROBLEMS
    first, *_ = capsys.readouterr().out.splitlines()
    known = f"At most {lost['records']} records of {partition.name} are missing. "
    assert first.startswith(f"ERROR         {known}")

    alone = shutil.copytree(partition, tmp_path / "alone-0")
    assert main(["verify", "--progress", "none", str(alone)]) == exits.OK
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("WARNING       Records may be missing: offsets are missing")


def test_damage_at_the_start_of_a_segment_is_not_a_hole_too(tmp_path: Path) -> None:
    """The first batch of the last segment does not match its checksum."""
    directory = copy_fixture("4.3.1/killed", tmp_path / "data")
    log = max((directory / "codec-gzip-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[300] ^= 0xFF
    log.write_bytes(data)
    ran = kdump("verify", directory, searching=False)
    found = [each["code"] for each in ran.of("finding") if each["severity"] != "info"]
    assert found == ["batch-crc-mismatch"]


def batches_of(log: Path) -> list[RecordBatch]:
    """The batches of a valid log."""
    return memory.batches(log.read_bytes(), int(log.stem))


def corrupt(log: Path, *found: RecordBatch) -> None:
    data = log.read_bytes()
    for each in found:
        data = flip(data, each.position + each.size - 1)
    log.write_bytes(data)


def lost_offsets(ran: Ran) -> set[int]:
    """The offsets that the findings of a loss have."""
    return {
        offset
        for found in ran.of("finding")
        if found["severity"] == "error" and found["offsets"] is not None
        for offset in range(found["offsets"]["first"], found["offsets"]["last"] + 1)
    }


def test_corruption_hides_no_segment_that_is_missing_after_it(tmp_path: Path) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "clean")
    partition = directory / "codec-zstd-0"
    first, gone, last = sorted(partition.glob("*.log"))
    for path in partition.glob(f"{gone.stem}.*"):
        path.unlink()
    missing = set(range(int(gone.stem), int(last.stem)))
    log = first.read_bytes()
    for each in batches_of(first):
        corrupt(first, each)
        ran = kdump("verify", partition, searching=False)
        first.write_bytes(log)
        hidden = set(range(each.base_offset, each.last_offset + 1))
        assert lost_offsets(ran) == hidden | missing
        (line,) = ran.of("forecast")
        assert line["lost_now"]["records"] == len(hidden | missing)


@pytest.mark.parametrize(
    "name", ["codec-none-0", "preallocated-0", "log-append-time-0", "__transaction_state-0"]
)
def test_corruption_hides_no_end_that_is_missing(name: str, tmp_path: Path) -> None:
    """By the checkpoints of a clean shutdown the log ended one batch later."""
    directory = copy_fixture("4.3.1/clean", tmp_path / "clean")
    log = sorted((directory / name).glob("*.log"))[-1]
    *found, last = batches_of(log)
    os.truncate(log, last.position)
    whole = log.read_bytes()
    for each in found[:-1][:: len(found) // 3]:
        corrupt(log, each)
        ran = kdump("verify", directory, "--topic", name.rpartition("-")[0], searching=False)
        log.write_bytes(whole)
        beyond = {
            line["code"]: line["offsets"]
            for line in ran.of("finding")
            if line["code"].endswith("-beyond-end")
        }
        gone = {"first": last.base_offset, "last": last.last_offset}
        assert beyond == {"recovery-point-beyond-end": gone, "high-watermark-beyond-end": gone}
        (line,) = (line for line in ran.of("forecast") if line["path"].endswith(name))
        assert line["lost_now"]["records"] == sum(
            lost.last_offset - lost.base_offset + 1 for lost in (each, last)
        )


def test_a_copy_leaves_out_what_is_corrupt_and_not_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "clean")
    first, gone, _ = sorted((directory / "codec-zstd-0").glob("*.log"))
    gone.unlink()
    third = batches_of(first)[2]
    corrupt(first, third)
    for path in (directory, directory / "codec-zstd-0"):
        assert main(["verify", str(path)]) == exits.PROBLEMS
        text = " ".join(capsys.readouterr().out.split())
        assert "At most 58 records" in text
        only = (
            "without at most 5 corrupt records" if path == directory else "loses at most 5 records"
        )
        assert only in text
    assert third.last_offset - third.base_offset + 1 == 5


def test_many_corrupt_batches_hide_no_segment_that_is_missing_after_them(tmp_path: Path) -> None:
    """More of them than findings list."""
    partition = copy_fixture("4.3.1/clean", tmp_path / "clean") / "transactions-0"
    first, gone, following, *_ = sorted(partition.glob("*.log"))
    gone.unlink()
    found = batches_of(first)[-2::-2]  # others between them stay valid, and the last one
    assert len(found) > 9
    corrupt(first, *found)
    ran = kdump("verify", partition, searching=False)
    (hole,) = (each for each in ran.of("finding") if each["code"] == "segment-missing")
    assert hole["offsets"] == {"first": int(gone.stem), "last": int(following.stem) - 1}
    damages = [each for each in ran.of("finding") if each["code"] == "batch-crc-mismatch"]
    assert len(damages) + sum(each["repeats"] for each in damages) == len(found)


def test_a_corrupt_end_is_listed_and_counted_once(tmp_path: Path) -> None:
    partition = copy_fixture("4.3.1/clean", tmp_path / "clean") / "transactions-0"
    first = min(partition.glob("*.log"))
    found = batches_of(first)[::-2]
    assert len(found) > 9
    corrupt(first, *found)
    ran = kdump("verify", partition, searching=False)
    damages = [each for each in ran.of("finding") if each["code"] == "batch-crc-mismatch"]
    assert damages[-1]["position"] == found[0].position
    assert len(damages) + sum(each["repeats"] for each in damages) == len(found)
