"""``kdump repair``: one plan for a whole log directory, one consent, one undo."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from commands.repair import damaged_directory as damaged
from commands.repair.repairing import OTHERS, directory
from kdump.ui import exits
from support.crashing.recorded import record
from support.crashing.running import Run, run
from support.crashing.seam import failing, killed_before
from support.crashing.sound import sound_offsets
from support.crashing.trees import Node, put, take
from support.fixtures_loader import copy_fixture
from support.long_samples import first_of

pytestmark = pytest.mark.once

SEED: Final = 49


@pytest.fixture
def data(place: Path) -> Path:
    return damaged.write(place)[0]


@pytest.fixture
def replica(data: Path) -> Path:
    return data.parent / "replica"


def repair(*arguments: object, around: Any = None) -> Run:
    return run(["repair", *map(str, arguments)], around)


def lines(ran: Run, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, ran.out.splitlines()) if each["type"] == kind]


def plan(*arguments: object) -> tuple[dict[str, str], dict[str, dict[str, Any]], str | None]:
    """The cure of each partition, what is left, and the id."""
    ran = repair(*arguments, "--format", "json")
    cures = {Path(each["partition"]).name: each["cure"] for each in lines(ran, "cure")}
    left = {Path(each["partition"]).name: each for each in lines(ran, "left")}
    (summary,) = lines(ran, "summary")
    wanted = exits.INCOMPLETE if left else exits.PROBLEMS if cures else exits.OK
    assert ran.code == wanted == summary["exit"], ran
    return cures, left, summary["id"]


def applied(*arguments: object, around: Any = None) -> Run:
    _, _, plan_id = plan(*arguments)
    return repair(*arguments, "--apply", "--confirm", plan_id, around=around)


def problems(data: Path) -> dict[str, set[str]]:
    """The errors and warnings of ``verify`` by partition."""
    ran = run(["verify", str(data), "--format", "json"])
    found: dict[str, set[str]] = {}
    for finding in lines(ran, "finding"):
        if finding["severity"] != "info":
            path = Path(finding["path"])
            name = path.name if path.parent == data else path.parent.name
            found.setdefault(name, set()).add(finding["code"])
    return found


def valid(data: Path) -> dict[str, list[int]]:
    """The offsets in valid batches, by partition."""
    return {
        partition.name: [
            offset
            for log in sorted(partition.glob("*.log"))
            for _, offset in sound_offsets(log.read_bytes())
        ]
        for partition in sorted(data.glob("*-0"))
    }


def tree(data: Path) -> dict[str, Node]:
    """All below the directory, but for the lock, which stays once it was made."""
    return {path: node for path, node in take(data).items() if path != ".lock"}


def test_the_cures_of_a_directory(data: Path) -> None:
    before = tree(data)
    cures, left, _ = plan(data)
    assert cures == {"index-0": "rebuild", "torn-0": "tail", "both-0": "tail", "end-0": "tail"}
    assert left.keys() == {"middle-0"}
    assert left["middle-0"]["options"] == ["--from REPLICA", *OTHERS]
    assert left["middle-0"]["remedy"][:2] == ["kdump", "salvage"]
    assert tree(data) == before


def test_what_is_cured_is_right_and_keeps_every_valid_record(data: Path) -> None:
    before, records = tree(data), valid(data)
    ran = applied(data)
    assert ran.code == exits.INCOMPLETE, ran
    assert problems(data).keys() == {"middle-0"}
    assert valid(data) == records
    untouched = ("ok-0", "middle-0")
    after = tree(data)
    for name in untouched:
        assert {path for path in after if path.startswith(name)} == {
            path for path in before if path.startswith(name)
        }
        assert all(after[path] == before[path] for path in before if path.startswith(name))
    assert plan(data)[0] == {}


def test_the_printed_command_does_it_and_the_printed_undo_takes_it_back(data: Path) -> None:
    before = tree(data)
    shown = repair(data)
    assert max(map(len, shown.out.splitlines())) <= 80, shown
    (command,) = (line for line in shown.out.splitlines() if " --apply --confirm " in line)
    done = run(shlex.split(command.removeprefix("apply"))[1:])
    assert done.code == exits.INCOMPLETE, done
    assert "4 partitions repaired" in done.out
    undo = next(line for line in done.out.splitlines() if line.startswith("undo"))
    assert run(["verify", str(data)]).code == exits.PROBLEMS
    assert run(shlex.split(undo.removeprefix("undo"))[1:]).code == exits.OK
    assert tree(data) == before


def test_a_replica_gives_what_it_has_first(data: Path, replica: Path) -> None:
    cures, left, _ = plan("--from", replica, data)
    assert left == {}
    assert cures == {
        "index-0": "rebuild",
        "torn-0": "tail",  # no valid record is lost, and nothing shows that a whole one was there
        "both-0": "tail",
        "middle-0": "replica",
        "end-0": "replica",
    }
    assert applied("--from", replica, data).code == exits.OK
    assert problems(data) == {}
    whole = list(range(200))
    found = valid(data)
    assert found["middle-0"] == found["end-0"] == found["ok-0"] == whole


def test_as_a_broker_truncates(data: Path) -> None:
    cures, left, plan_id = plan("--as-broker", data)
    assert (cures["middle-0"], left) == ("as-broker", {})
    refused = repair("--as-broker", data, "--apply")
    assert refused.code == exits.REFUSED
    assert f"expected --confirm {plan_id}" in refused.err
    assert "VALID" in refused.out
    assert applied("--as-broker", data).code == exits.OK
    assert valid(data)["middle-0"] == list(range(15))
    assert problems(data) == {}


@pytest.mark.parametrize("kind", ["rebuild", "tail"])
def test_only_one_kind(data: Path, kind: str) -> None:
    cures, left, _ = plan("--only", kind, data)
    assert set(cures.values()) == {kind}
    assert left.keys() == {"index-0", "torn-0", "both-0", "middle-0", "end-0"} - cures.keys()
    assert all("--only" in each["reason"] for name, each in left.items() if name != "middle-0")


def test_topics_are_selected(data: Path) -> None:
    assert plan("--topic", "i*", data)[:2] == ({"index-0": "rebuild"}, {})
    assert plan("--exclude", "middle", "--exclude", "end", data)[0].keys() == {
        "index-0",
        "torn-0",
        "both-0",
    }
    assert plan("--topic", "ok", data) == ({}, {}, plan("--topic", "ok", data)[2])


def test_a_partition_in_a_log_directory(data: Path) -> None:
    assert plan(data / "both-0")[0] == {"both-0": "tail"}
    assert applied(data / "both-0").code == exits.OK
    assert problems(data).keys() == {"index-0", "torn-0", "middle-0", "end-0"}


def test_what_changed_since_the_plan_is_left_out_and_the_rest_is_done(data: Path) -> None:
    """It changes after the whole plan was made again, and before its turn."""
    log = data / "torn-0" / "00000000000000000100.log"

    def around(call: Any, make: Callable[..., Any]) -> Any:
        if call.method == "rename" and "both-0" in str(call.arguments) and log.stat().st_size % 2:
            with log.open("ab") as file:
                file.write(b"x")
        return make(*call.arguments)

    size = log.stat().st_size
    if size % 2 == 0:
        os.truncate(log, size - 1)
    ran = applied(data, around=around)
    assert ran.code == exits.INCOMPLETE
    assert "torn-0: expected the files that plan" in " ".join(ran.out.split())
    assert problems(data).keys() == {"torn-0", "middle-0"}


def test_what_is_in_the_way_is_one_line(data: Path, place: Path) -> None:
    alone = place / "alone"
    os.rename(data / "torn-0", alone)
    os.rename(alone, place / "torn-0")
    outside = repair(place / "torn-0")
    assert outside.code == exits.USAGE
    assert outside.err.count("\n") == 1
    assert "expected a log directory" in outside.err
    missing = repair(place / "nowhere")
    assert (missing.code, missing.err.count("\n")) == (exits.INCOMPLETE, 1)
    wrong = repair(data, "--apply", "--confirm", "00000000")
    assert wrong.code == exits.REFUSED
    assert "found 00000000" in wrong.err


def test_a_metadata_log_is_left_to_its_quorum(data: Path) -> None:
    os.rename(data / "middle-0", data / "__cluster_metadata-0")
    _, left, _ = plan(data)
    assert "quorum" in left["__cluster_metadata-0"]["reason"]
    assert left["__cluster_metadata-0"]["remedy"][:2] == ["kdump", "quorum"]


@pytest.mark.slow
def test_a_thousand_partitions_are_a_screen(place: Path) -> None:
    data = damaged.write_many(place / "many", 1000)
    shown = repair(data)
    assert shown.code == exits.INCOMPLETE
    assert len(shown.out.splitlines()) <= 30, shown
    assert max(map(len, shown.out.splitlines())) <= 80
    every = repair(data, "--all")
    assert len(re.findall("^PLAN ", every.out, re.MULTILINE)) == 666 + 1


# --- interruptions


def calls_of(command: list[str], data: Path) -> int:
    """The number of calls by which a command changes files."""
    count = len(record(command, data).calls)
    assert count > 100
    return count


@pytest.fixture
def begun(data: Path) -> Iterator[tuple[Path, dict[str, Node], list[str], str]]:
    """The directory, its tree, the command that repairs it, and the id of its plan."""
    _, _, plan_id = plan(data)
    assert plan_id is not None
    yield data, take(data), ["repair", str(data), "--apply", "--confirm", plan_id], plan_id


def without_times(data: Path) -> dict[str, Node]:
    """What brokers read: not the records of repairs."""
    return {
        path: node.lasting
        for path, node in tree(data).items()
        if "/.kdump" not in path and not path.startswith(".kdump.")
    }


def wrong_after_kill(
    begun: tuple[Path, dict[str, Node], list[str], str], number: int, expected: dict[str, Node]
) -> list[str]:
    """What is wrong after a kill before call ``number``, its repetition and its undo."""
    data, original, command, plan_id = begun
    put(data, original)
    killed = run(command, killed_before(number))
    wrong = [] if killed.code < 0 else [f"{number}: exit {killed.code}"]
    at_kill = take(data)
    again = run(command)
    if again.code != exits.INCOMPLETE or without_times(data) != expected:
        wrong.append(f"{number}: the repetition ends in another state, {again}")
    if "directory-repair-pending" in str(problems(data)):
        wrong.append(f"{number}: still unfinished")
    put(data, at_kill)
    undone = run(["undo", str(data), "--plan", plan_id, "--apply"])
    before = {path: node for path, node in original.items() if path != ".lock"}
    # Nothing was changed yet: the next repair removes what was prepared.
    unchanged = undone.code == exits.USAGE and without_times(data) == _lasting(before)
    if not unchanged and (undone.code, tree(data)) != (exits.OK, before):
        wrong.append(f"{number}: the undo ends in another state, {undone}")
    return wrong


def _lasting(tree: dict[str, Node]) -> dict[str, Node]:
    return {path: node.lasting for path, node in tree.items()}


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2, id="few"),
        pytest.param(30, id="some", marks=pytest.mark.slow),
        pytest.param(10_000, id="all", marks=pytest.mark.nightly),
    ],
)
def test_killed_before_a_call(
    begun: tuple[Path, dict[str, Node], list[str], str], count: int
) -> None:
    data, _, command, _ = begun
    calls = calls_of(command, data)
    expected = without_times(data)
    numbers = random.Random(SEED).sample(range(calls), min(count, calls))
    wrong = [line for number in numbers for line in wrong_after_kill(begun, number, expected)]
    assert wrong == []


@pytest.mark.parametrize("count", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_a_failed_call_says_how_to_go_on(
    begun: tuple[Path, dict[str, Node], list[str], str], count: int
) -> None:
    data, original, command, plan_id = begun
    expected_calls = calls_of(command, data)
    expected = without_times(data)
    for number in random.Random(SEED).sample(range(expected_calls), count):
        put(data, original)
        failed = run(command, failing(number.__eq__, errno.EIO))
        if failed.code == exits.REFUSED:  # nothing was changed
            assert without_times(data) == _lasting(
                {path: node for path, node in original.items() if path != ".lock"}
            )
            continue
        assert failed.code == exits.INCOMPLETE, failed
        assert "Traceback" not in failed.err
        shown = run(["repair", str(data)])
        if failed.last_line.startswith("kdump repair"):
            assert shown.code == exits.INCOMPLETE
            assert plan_id in shown.out
            run(shlex.split(failed.last_line)[1:])
            assert without_times(data) == expected


def killed_late(begun: tuple[Path, dict[str, Node], list[str], str]) -> dict[str, Node]:
    """Kill a repair at two thirds of its calls; return how the tree stands at the end of it."""
    data, original, command, _ = begun
    calls = calls_of(command, data)
    finished = without_times(data)
    put(data, original)
    killed = run(command, killed_before(2 * calls // 3))
    assert killed.code < 0, killed
    return finished


def test_an_interrupted_repair_is_found_by_verify_and_finished_by_its_remedy(
    begun: tuple[Path, dict[str, Node], list[str], str],
) -> None:
    data, expected = begun[0], killed_late(begun)
    ran = run(["verify", str(data), "--format", "json"])
    (finding,) = (
        each for each in lines(ran, "finding") if each["code"] == "directory-repair-pending"
    )
    assert run(finding["remedy"][1:]).code == exits.INCOMPLETE
    assert without_times(data) == expected


def test_another_repair_waits_for_an_interrupted_one(
    begun: tuple[Path, dict[str, Node], list[str], str],
) -> None:
    data, *_, plan_id = begun
    killed_late(begun)
    other = repair("--as-broker", data)
    assert other.code == exits.REFUSED
    assert plan_id in other.err


# --- journals are not believed blindly


@pytest.mark.parametrize(
    "change",
    first_of(
        [
            lambda fields: fields | {"cures": [{"partition": "../x", "cure": "tail"}]},
            lambda fields: [fields],
            lambda fields: fields | {"id": "00000000"},
            lambda fields: fields | {"schema": 2},
            lambda fields: fields | {"done": "no"},
            lambda fields: fields | {"cures": 7},
            lambda fields: fields | {"arguments": [1]},
        ],
        count=2,
        every=1,
    ),
)
def test_a_journal_that_no_repair_wrote(data: Path, change: Callable[[Any], Any]) -> None:
    applied(data)
    (journal,) = data.glob(".kdump.????????")
    fields = json.loads(journal.read_text())
    journal.write_text(json.dumps(change(fields)))
    for command in (["repair", str(data)], ["undo", str(data)]):
        ran = run(command)
        assert ran.code == exits.INCOMPLETE, ran
        assert str(journal) in ran.err
        assert "Traceback" not in ran.err
    assert "directory-repair-pending" in str(problems(data))


def test_a_journal_of_another_user_is_refused(data: Path) -> None:
    applied(data)
    (journal,) = data.glob(".kdump.????????")
    fields = json.loads(journal.read_text())
    journal.write_text(json.dumps(fields | {"done": False}))
    journal.chmod(0o666)
    ran = repair(data, "--apply")
    assert ran.code == exits.REFUSED
    assert "no other user can write" in ran.err


def test_backups_that_are_gone_end_the_journal(data: Path) -> None:
    _, _, plan_id = plan(data)
    applied(data)
    assert run(["undo", str(data), "--plan", str(plan_id), "--discard"]).code == exits.OK
    assert list(data.glob(".kdump.*")) == []
    assert list(data.glob("*/.kdump")) == []
    assert problems(data).keys() == {"middle-0"}


# --- what leads here


def steps(*paths: Path) -> list[list[str]]:
    """The commands of repair that the plan of ``verify`` prints."""
    shown = run(["verify", *map(str, paths)])
    found = [line.strip() for line in shown.out.splitlines() if line.strip().startswith("kdump ")]
    return [shlex.split(line)[1:] for line in found if line.startswith("kdump repair ")]


def test_verify_leads_here_where_many_partitions_have_a_lossless_cure(place: Path) -> None:
    data = damaged.write_many(place / "many", 30)
    (command,) = steps(data)
    assert command == ["repair", str(data)]
    assert run([*command, "--apply"]).code == exits.INCOMPLETE
    assert steps(data) == []
    assert problems(data) == {"middle-0": {"batch-crc-mismatch"}}


@pytest.mark.parametrize(
    ("kind", "topic", "count"),
    [("tail", "torn", 4), ("rebuild", "index", 4), ("tail", "torn", 3), ("rebuild", "index", 3)],
)
def test_verify_names_the_only_cure_of_many_partitions(
    kind: str, topic: str, count: int, place: Path
) -> None:
    same = damaged.damaged()[topic]
    data = directory(place / "data", {f"t{number}": same for number in range(count)})
    commands = [["repair", str(data), "--only", kind]]
    assert steps(data) == (commands if count > 3 else [])
    if count > 3:
        assert run([*commands[0], "--apply"]).code == exits.OK
        assert problems(data) == {}


def test_verify_leads_here_where_a_replica_has_many_records(place: Path) -> None:
    data, replica = place / "data", place / "replica"
    damaged.write_corrupt(data, replica, 5)
    commands = steps(data, replica)
    assert commands == [["repair", str(data), "--from", str(replica)]]
    done = run([*commands[0], "--apply"])
    assert done.code == exits.OK, done
    assert problems(data) == {}
    assert all(offsets == list(range(100)) for offsets in valid(data).values())


def test_records_that_may_be_of_another_topic_are_left(place: Path) -> None:
    """The cure of partition-stray-only has a condition that nothing on the disk shows."""
    data = copy_fixture("4.3.1/clean", place / "data")
    file = data / "codec-lz4-0" / "partition.metadata"
    file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw\n")
    assert problems(data) == {"codec-lz4-0": {"partition-stray-only"}}
    cures, left, _ = plan(data)
    assert cures == {}
    assert set(left) == {"codec-lz4-0"}
    assert "another topic" in left["codec-lz4-0"]["reason"]
