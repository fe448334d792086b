"""What the report of ``kdump repair`` names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST, LAST
from commands.repair.repairing import directory, lasting, lines, plan_id, repair
from kdump.ui import exits
from support import forge
from support.commands import kdump
from support.damaged import name

pytestmark = pytest.mark.once

GOOD = damaged.whole()


def test_what_is_left_is_named_after_a_plan_that_was_read_before(place: Path) -> None:
    data, _ = damaged.write(place)
    ran = repair(data, "--apply", "--confirm", plan_id(data))
    assert ran.code == exits.INCOMPLETE
    assert re.search("^LEFT +middle-0: valid batches follow", ran.out, re.MULTILINE), ran


def test_all_names_each_partition_that_is_left(place: Path) -> None:
    corrupt = {FIRST: broken(GOOD[FIRST], 3), LAST: GOOD[LAST]}
    data = directory(place / "data", {f"m{each}": (corrupt, {}) for each in range(12)})
    shown, every = repair(data), repair(data, "--all")
    assert "m11-0: " not in shown.out
    assert "9 others" in shown.out
    assert all(f"m{each}-0: valid batches follow" in every.out for each in range(12)), every
    text = " ".join(every.out.split())
    assert all(f"/m{each}-0 --output DIR" in text for each in range(12)), every


def test_many_partitions_with_reasons_that_differ_in_numbers_have_one_line(place: Path) -> None:
    """The line has the numbers of the first one, and ways to help without operands."""

    def corrupt(batch: bytes) -> bytes:
        return forge.flip(forge.flip(batch, 9), len(batch) - 1)  # its size and its records

    def sizes_corrupt(*places: int) -> list[bytes]:
        return [corrupt(one) if at in places else one for at, one in enumerate(GOOD[FIRST])]

    data = place / "data"
    for at in range(3, 9):
        directory(data, {f"m{at}": ({FIRST: sizes_corrupt(at, at + 5)}, {})})
    ran = repair("--only-copy", data, "--format", "json")
    assert len({each["reason"] for each in lines(ran, "left")}) == 6
    text = " ".join(repair("--only-copy", data).out.split())
    assert text.count("batches that are surely no values") == 1
    assert "m3-0, m4-0, m5-0 and 3 others: 00000000000000000000.log: expected batches" in text
    assert "(--from or --refetch or --as-broker or kdump salvage)" in text
    every = " ".join(repair("--only-copy", data, "--all").out.split())
    assert every.count("batches that are surely no values") == 6


def test_a_plan_names_what_it_repairs_in_part(place: Path) -> None:
    """An index is rebuilt, and the records that are missing stay so."""
    gap = {FIRST: GOOD[FIRST], LAST: broken(GOOD[LAST], 3)}
    data = directory(place / "data", {"orders": (gap, {name(FIRST, ".index"): None})})
    (data / "replication-offset-checkpoint").write_bytes(b"garbage\n")
    ran = repair(data, "--format", "json")
    (cure,), (left,) = lines(ran, "cure"), lines(ran, "left")
    assert (ran.code, cure["cure"]) == (exits.INCOMPLETE, "rebuild")
    assert "valid batches follow" in left["reason"]
    done = repair(data, "--apply", "--format", "json")
    (left,), (summary,) = lines(done, "left"), lines(done, "summary")
    assert (done.code, summary["left"]) == (exits.INCOMPLETE, 1), done


def test_what_is_finished_in_the_end_is_not_left(place: Path) -> None:
    """No replica has the end of the log; it shows no record, so that it goes."""
    *rest, last = GOOD[LAST]
    corrupt = {FIRST: broken(GOOD[FIRST], 3), LAST: [*rest, last[: -damaged.TORN]]}
    data = directory(place / "data", {"orders": (corrupt, {})})
    shorter = {FIRST: GOOD[FIRST], LAST: rest}
    replica = directory(place / "replica", {"orders": (shorter, {})}, node=b"2")
    ran = repair("--from", replica, data, "--apply", "--format", "json")
    assert (ran.code, lines(ran, "left")) == (exits.OK, []), ran


def test_an_error_of_the_directory_itself_is_left(place: Path) -> None:
    """A broker does not start on it, whatever its partitions are."""
    data = directory(place / "data", {"orders": (GOOD, {})})
    assert repair(data).code == exits.OK
    (data / "lost+found").mkdir()
    ran = repair(data, "--format", "json")
    (left,) = lines(ran, "left")
    assert (ran.code, left["partition"]) == (exits.INCOMPLETE, str(data / "lost+found")), ran
    (data / "orders-0" / name(FIRST, ".index")).unlink()
    done = repair(data, "--apply")
    assert done.code == exits.INCOMPLETE
    assert "LEFT        lost+found" in done.out


def test_a_checkpoint_that_is_rebuilt_is_not_left(place: Path) -> None:
    data = directory(place / "data", {"orders": (GOOD, {})})
    (data / "replication-offset-checkpoint").write_bytes(b"garbage\n")
    assert repair(data).code == exits.PROBLEMS
    assert repair(data, "--apply").code == exits.OK
    assert repair(data).code == exits.OK


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_checkpoint_that_is_written_anew_keeps_no_plan_of_others(order: str, place: Path) -> None:
    """The plans of the others are made for the readable file, which the first partition writes."""
    corrupt = {FIRST: broken(GOOD[FIRST], 3), LAST: GOOD[LAST]}
    first: damaged.Segments = GOOD if order == "after" else corrupt
    data = place / "data"
    for topic, log in {"a": first, "b": corrupt, "c": damaged.torn(GOOD), "d": GOOD}.items():
        directory(data, {topic: (log, {})})
    marks = data / "replication-offset-checkpoint"
    marks.write_text("0\n5\na 0 200\nb 0 200\nc 0 200\nd 0 200\nx\n")
    (data / "recovery-point-offset-checkpoint").write_text("0\n3\nb 0 200\nc 0 200\n")
    before = lasting(data)
    later = "once the checkpoint files are readable" in repair("--only-copy", data).out
    assert later is (order == "before")
    agreed = plan_id("--only-copy", data)
    ran = repair("--only-copy", data, "--apply", "--confirm", agreed, "--format", "json")
    told = {Path(each["partition"]).name for each in lines(ran, "left")}
    assert told == (set() if order == "after" else {"a-0"}), ran
    assert "b 0 200" in marks.read_text()
    again = repair("--only-copy", data, "--format", "json")
    cures = {Path(each["partition"]).name: each["cure"] for each in lines(again, "cure")}
    assert cures == ({} if order == "after" else {"a-0": "drop"})
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert lasting(data) == before
