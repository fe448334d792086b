"""``kdump quorum`` on the disks of real controllers, sound and damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from support import quorum_disks as disks
from support.directory_state import state
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.long_samples import first_of

pytestmark = pytest.mark.once

SINGLE = ("3.9.1/clean", "3.9.1/killed", "4.3.1/clean", "4.3.1/killed")


@pytest.fixture
def quorum(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Runs the command on directories; its exit code and JSON lines. The text says the same."""

    def run(*paths: Path, options: Sequence[str] = ()) -> tuple[int, list[dict[str, Any]]]:
        before = [state(path) for path in paths]
        arguments = ["quorum", *options, *map(str, paths)]
        code = main([*arguments, "--format", "json"])
        printed = capsys.readouterr()
        lines = [json.loads(line) for line in printed.out.splitlines()]
        assert main(arguments) == code
        text = capsys.readouterr()
        assert [state(path) for path in paths] == before
        assert "Traceback" not in printed.err + text.err
        assert lines[-1]["type"] == "summary"
        assert lines[-1]["exit"] == code
        for sentence in lines[-1]["verdict"].split(". "):
            assert sentence in " ".join(text.out.split())
        return code, lines

    return run


def of(lines: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == kind]


def problems(lines: Sequence[dict[str, Any]]) -> set[str]:
    return {line["kind"] for line in of(lines, "problem")}


# --- a single real controller


#: Of each fixture the log end, the leader changes (offset, epoch), the snapshots.
CONTENT: Mapping[str, tuple[int, list[tuple[int, int]], list[tuple[int, int]]]] = {
    "3.9.1/clean": (282, [(0, 1), (197, 2)], [(110, 1), (195, 1)]),
    "3.9.1/killed": (262, [(0, 1), (200, 2)], [(112, 1), (198, 1)]),
    "4.3.1/clean": (305, [(0, 1), (212, 2)], [(118, 1), (210, 1), (303, 2)]),
    "4.3.1/killed": (280, [(0, 1), (206, 2)], [(116, 1), (205, 1), (277, 2)]),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_copy_has_what_its_files_have(name: str, quorum: Any, tmp_path: Path) -> None:
    directory = copy_fixture(name, tmp_path / "data")
    code, lines = quorum(directory)
    (copy,) = of(lines, "copy")
    end, changes, snapshots = CONTENT[name]
    assert code == 0
    assert copy["log_start_offset"] == 0
    assert copy["log_end_offset"] == end
    assert copy["last_epoch"] == 2
    assert copy["epochs"] == [
        {"epoch": 1, "start": 0, "end": changes[1][0]},
        {"epoch": 2, "start": changes[1][0], "end": end},
    ]
    assert [(each["end_offset"], each["epoch"]) for each in copy["snapshots"]] == snapshots
    assert copy["usable_snapshot"] == list(snapshots[-1])
    properties = dict(
        line.split("=", 1)
        for line in (directory / "meta.properties").read_text().splitlines()
        if "=" in line
    )
    assert copy["node_id"] == int(properties["node.id"])
    assert copy["directory_id"] == properties["directory.id"]
    assert copy["cluster_id"] == properties["cluster.id"]
    stored = json.loads((directory / METADATA / "quorum-state").read_text())
    assert copy["quorum_state"]["leader_epoch"] == stored["leaderEpoch"]
    assert copy["quorum_state"]["leader_id"] == stored["leaderId"]
    assert copy["quorum_state"]["current_voters"] == [1]
    found = of(lines, "leader_change")
    assert [(each["offset"], each["epoch"], each["leader_id"]) for each in found] == [
        (offset, epoch, 1) for offset, epoch in changes
    ]
    assert all(each["granting"] == [{"node_id": 1, "directory_id": None}] for each in found)
    assert lines[-1]["can_lead"] == lines[-1]["start_first"] == [1]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.slow
def test_a_partition_tells_the_same_as_its_log_directory(
    name: str, quorum: Any, tmp_path: Path
) -> None:
    directory = copy_fixture(name, tmp_path / "data")
    _, whole = quorum(directory)
    _, alone = quorum(directory / METADATA)
    for lines in (whole, alone):
        for line in of(lines, "copy"):
            del line["path"]
    assert whole[1:] == alone[1:]


def test_roles_and_voters_come_from_the_configuration(quorum: Any, tmp_path: Path) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    config = tmp_path / "server.properties"
    config.write_text(
        "node.id=1\nprocess.roles=broker,controller\nlog.dirs=/nowhere\n"
        f"metadata.log.dir={directory}\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1\n"
    )
    code, lines = quorum(directory, options=["--config", str(config)])
    (copy,) = of(lines, "copy")
    assert copy["roles"] == ["broker", "controller"]
    assert [each["node_id"] for each in copy["static_voters"]] == [1, 2, 3]
    assert code == 4
    assert problems(lines) == {"voter-not-given", "no-leader"}
    assert lines[-1]["can_lead"] == []
    assert "of 3 voters the given disks have 1 that can vote: 1; 2 elect" in lines[-1]["verdict"]
    assert "Only the given disks are known" in lines[-1]["verdict"]


def test_without_a_path_the_metadata_directory_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs=/nowhere\nmetadata.log.dir={directory}\n")
    assert main(["quorum", "--config", str(config)]) == 0
    assert f"REPLICA 1: {directory}\n" in capsys.readouterr().out


@pytest.mark.parametrize("voters", ["1", "1@", "x@a:1", "-1@a:1"])
def test_malformed_voters_are_refused(
    voters: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    (tmp_path / "c").write_text(f"controller.quorum.voters={voters}\n")
    assert main(["quorum", str(directory), "--config", str(tmp_path / "c")]) == 5
    assert "expected ID@HOST:PORT" in capsys.readouterr().err


def test_only_the_last_leader_changes_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    assert main(["quorum", str(directory), "--leader-changes", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("elected") - out.count("be elected") == 1
    assert "from offset 212 on" in out
    assert "1 earlier leader change not shown" in out


@pytest.mark.parametrize("what", ["topic", "segment", "broker"])
def test_what_is_no_controller_is_refused(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    path = {
        "topic": directory / "codec-none-0",
        "segment": disks.last_log(directory),
        "broker": directory / "gone",
    }[what]
    assert main(["quorum", str(path)]) == (5 if what == "broker" else 2)
    printed = capsys.readouterr()
    assert ("expected" if what != "broker" else "gone: cannot be read") in printed.err
    assert printed.out == ""


# --- damage of a single controller


DAMAGED: Mapping[str, tuple[disks.Damage, int, set[str], bool]] = {
    "log cut": (disks.cut_batches(3), 0, set(), True),
    "log torn": (disks.tear_batch(0), 0, {"torn-tail"}, True),
    "byte flipped at the end": (disks.flip_byte(0), 4, {"log-cut"}, True),
    "byte flipped": (disks.flip_byte(40), 4, {"log-cut"}, True),
    "no quorum-state": (disks.remove_quorum_state, 0, {"quorum-state-missing"}, True),
    "empty quorum-state": (
        disks.empty_quorum_state,
        4,
        {"does-not-start", "no-leader"},
        False,
    ),
    "garbled quorum-state": (
        disks.garble_quorum_state,
        4,
        {"does-not-start", "no-leader"},
        False,
    ),
    "other directory": (disks.change_directory_id, 0, set(), True),
    "other cluster": (disks.change_cluster, 0, set(), True),
    "vote for another directory": (
        disks.vote_for_other_directory,
        0,
        {"voted-directory-differs"},
        True,
    ),
    "no log": (disks.remove_log, 4, {"log-missing", "no-leader"}, False),
    "no log files": (disks.remove_log_files, 0, set(), True),
    "no meta.properties": (
        disks.remove_meta,
        4,
        {"does-not-start", "no-leader", "voter-not-given"},
        False,
    ),
    "snapshot damaged": (disks.damage_snapshot, 4, {"does-not-start", "no-leader"}, False),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("fixture", first_of(["4.3.1/clean", "3.9.1/killed"]))
@pytest.mark.slow
def test_a_damaged_controller(name: str, fixture: str, quorum: Any, tmp_path: Path) -> None:
    directory = copy_fixture(fixture, tmp_path / "data")
    damage, code, kinds, leads = DAMAGED[name]
    damage(directory)
    found, lines = quorum(directory)
    # A clean shutdown leaves a producer snapshot at the end that the log had.
    lost = "log-end-missing" in problems(lines)
    assert problems(lines) - {"records-lost", "log-behind", "log-end-missing"} == kinds
    assert found == (4 if lost else code)
    assert (lines[-1]["can_lead"] == [1]) is leads


def test_an_empty_disk_alone_is_a_wrong_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    disks.remove_everything(directory)
    assert main(["quorum", "--format", "json", str(directory)]) == 5
    printed = capsys.readouterr()
    assert "is the disk mounted?" in printed.err
    assert printed.out == ""


# --- three copies of one real log, as the disks of three voters


Three = Callable[..., tuple[int, list[dict[str, Any]]]]
VOTERS = "controller.quorum.voters=1@a:1,2@b:1,3@c:1\n"


@pytest.fixture
def three(quorum: Any, tmp_path: Path) -> Three:
    """Runs the command on the disks 1 to 3, of which these are damaged, and those given."""

    def run(
        damages: Mapping[int, disks.Damage] | None = None, given: Sequence[int] = (1, 2, 3)
    ) -> tuple[int, list[dict[str, Any]]]:
        (tmp_path / "config").write_text(VOTERS)
        for node in (1, 2, 3):
            directory = copy_fixture("4.3.1/clean", tmp_path / str(node))
            meta = directory / "meta.properties"
            text = meta.read_text().replace("node.id=1", f"node.id={node}")
            meta.write_text(text.replace("directory.id=03F0", f"directory.id=0{node}F0"))
            for snapshot in directory.glob(f"{METADATA}/*.checkpoint"):
                snapshot.unlink()  # the whole log is there
            if damages and node in damages:
                damages[node](directory)
        paths = [tmp_path / str(node) for node in given]
        result: tuple[int, list[dict[str, Any]]]
        result = quorum(*paths, options=["--config", str(tmp_path / "config")])
        return result

    return run


@pytest.mark.slow
def test_equal_copies_are_a_quorum(three: Three) -> None:
    code, lines = three()
    assert code == 0
    assert not of(lines, "problem")
    assert lines[-1]["can_lead"] == [1, 2, 3]
    assert "The order of the starts does not matter" in lines[-1]["verdict"]


def test_two_of_three_make_a_quorum_and_one_does_not(three: Three) -> None:
    code, lines = three(given=[1, 3])
    assert (code, problems(lines)) == (0, {"voter-not-given"})
    assert lines[-1]["can_lead"] == [1, 3]
    code, lines = three(given=[2])
    assert (code, problems(lines)) == (4, {"voter-not-given", "no-leader"})
    assert lines[-1]["can_lead"] == []


def test_the_longest_log_is_to_start_first(three: Three) -> None:
    code, lines = three({1: disks.cut_batches(20), 2: disks.cut_batches(40)})
    assert code == 4
    assert lines[-1]["can_lead"] == [3, 1]  # node 1 with the vote of node 2
    assert lines[-1]["start_first"] == [3, 2]
    best, worse = of(lines, "leader")
    assert (best["lost_records"], best["unreadable"]) == (0, [])
    copies = {each["node_id"]: each for each in of(lines, "copy")}
    (loss,) = worse["losses"]
    assert loss["copy"] == 3
    assert loss["first_offset"] == copies[1]["log_end_offset"]
    assert loss["end_offset"] == copies[3]["log_end_offset"] == 305
    assert loss["holders"] == [3]
    assert 0 < loss["changes"] <= loss["records"] == 305 - loss["first_offset"]
    assert problems(lines) == {"records-lost"}
    assert "Start node 3 and node 2 first" in lines[-1]["verdict"]


@pytest.mark.slow
def test_what_another_copy_has_is_not_lost(three: Three) -> None:
    code, lines = three({1: disks.flip_byte(30), 2: disks.flip_byte(30)})
    (copy,) = (each for each in of(lines, "copy") if each["node_id"] == 1)
    assert copy["damage"]["reason"] == "bad-checksum"
    assert copy["cut_records"] > 0
    assert lines[-1]["can_lead"][0] == lines[-1]["start_first"][0] == 3
    best = of(lines, "leader")[0]
    assert (best["lost_records"], best["unreadable"]) == (0, [])
    other = of(lines, "leader")[1]
    assert {loss["cut_at_start"] for loss in other["losses"]} == {True, False}
    assert other["unreadable"] == [1, 2]
    assert code == 4


def test_damage_before_the_end_of_all_copies_is_a_loss(three: Three) -> None:
    same = disks.flip_byte(30)
    code, lines = three({1: same, 2: same, 3: same})
    assert code == 4
    assert lines[-1]["can_lead"] == [1, 2, 3]
    assert all(leader["lost_changes"] for leader in of(lines, "leader"))
    assert ": they are lost" in lines[-1]["verdict"]


def test_a_changed_batch_with_a_good_checksum_is_found(three: Three) -> None:
    code, lines = three({2: disks.reseal_batch(10)})
    assert code == 4
    found = [(each["kind"], each["copies"]) for each in of(lines, "problem")]
    assert found == [("content-differs", [1, 2]), ("content-differs", [2, 3])]


@pytest.mark.slow
def test_a_disk_of_another_cluster_does_not_vote(three: Three) -> None:
    code, lines = three({1: disks.change_cluster, 2: disks.cut_batches(4)})
    assert code == 4
    assert "cluster-id-differs" in problems(lines)
    assert lines[-1]["can_lead"] == [3]
    (election,) = (each for each in of(lines, "election") if each["node_id"] == 3)
    assert {vote["node_id"]: vote["answer"] for vote in election["votes"]} == {
        1: "other_cluster",
        2: "granted",
        3: "granted",
    }


@pytest.mark.slow
def test_two_disks_that_do_not_start_leave_no_quorum(three: Three) -> None:
    code, lines = three({1: disks.remove_meta, 3: disks.empty_quorum_state})
    assert code == 4
    assert lines[-1]["can_lead"] == []
    verdict = lines[-1]["verdict"]
    assert "of 3 voters the given disks have 1 that can vote: 2; 2 elect a leader" in verdict
    assert "kdump explain meta-properties-missing" in verdict
    assert "kdump explain quorum-state-malformed" in verdict


def test_new_disks_can_outvote_the_log(three: Three) -> None:
    code, lines = three({1: disks.remove_log, 2: disks.remove_log})
    assert code == 4
    assert lines[-1]["can_lead"] == [3, 1, 2]
    empty = of(lines, "leader")[1]
    assert empty["lost_records"] == 305
    assert lines[-1]["start_first"][0] == 3


@pytest.mark.slow
def test_a_former_leader_without_its_quorum_state_stops(three: Three) -> None:
    # All three files name node 1 as the leader of epoch 2.
    code, lines = three({1: disks.remove_quorum_state})
    assert code == 4
    assert problems(lines) == {"quorum-state-missing", "leadership-forgotten"}
    (problem,) = (each for each in of(lines, "problem") if not each["note"])
    assert problem["copies"] == [1]
    code, lines = three({2: disks.remove_quorum_state})
    assert (code, problems(lines)) == (0, {"quorum-state-missing"})


def test_two_disks_of_one_node_have_one_vote(quorum: Any, tmp_path: Path) -> None:
    one = copy_fixture("4.3.1/clean", tmp_path / "1")
    two = copy_fixture("4.3.1/clean", tmp_path / "2")
    (tmp_path / "config").write_text(VOTERS)
    code, lines = quorum(one, two, options=["--config", str(tmp_path / "config")])
    assert code == 4
    assert "node-twice" in problems(lines)
    assert lines[-1]["can_lead"] == []
    assert {each["granted"] for each in of(lines, "election")} == {1}


def test_a_path_with_odd_characters_is_printed_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "a\x1b[31m\n")
    disks.empty_quorum_state(directory)
    assert main(["quorum", str(directory)]) == 4
    out = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out)
    assert "\\x1b" in out or "\\u001b" in out or "\\e" in out
