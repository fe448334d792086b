"""``kdump metadata``: what it replays up to each offset, differences, damage, secrets, commands."""

from __future__ import annotations

import json
import shlex
import shutil
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import category

import pytest

from kdump.cli.main import main
from kdump.commands.metadata.entries import differences
from kdump.commands.metadata.json_lines import emit_image
from kdump.commands.metadata.text import print_image
from kdump.metadata.replay import MetadataState, read_state
from kdump.storage.logdir import read_partition
from support import forge_metadata as meta
from support.fixtures_loader import FIXTURES, ROOT, few_first
from support.forge import batch, control_batch, flip, record
from support.forge_metadata import METADATA, log, segment_name, snapshot, snapshot_name
from support.metadata_history import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    History,
    metadata_value,
    secret_values,
    voters_value,
)

ID, OTHER = "b25lLXRvcGljLTEyMzQ1Ng", "b3RoZXItdG9waWMtMTIzNA"
TOPIC = [meta.topic("orders", ID), meta.partition(ID, 0), meta.partition(ID, 1)]
KRAFT = [name for name in FIXTURES if (ROOT / "brokers" / name / METADATA).is_dir()]
FORMATS = ("text", "json", "commands")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """``run(argument...)``: the exit code and both outputs of ``kdump metadata``."""

    def of(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["metadata", *map(str, arguments)])
        return code, *capfd.readouterr()

    return of


def write(tmp_path: Path, files: Mapping[str, bytes]) -> Path:
    partition = tmp_path / METADATA
    partition.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return partition


def state_of(tmp_path: Path, *values: bytes) -> MetadataState:
    return read_state(read_partition(write(tmp_path, {segment_name(): log(values)})))


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


# --- up to an offset


@pytest.mark.parametrize("name", few_first(KRAFT))
def test_the_image_up_to_each_offset_of_a_fixture(name: str, tmp_path: Path) -> None:
    """What differs between neighbours adds up; with and without snapshots the images are equal."""
    partition = read_partition(ROOT / "brokers" / name / METADATA)
    whole = read_state(partition)
    bare = write(tmp_path, {})
    # 4.4 formats with a snapshot at offset 0, which has what no record repeats.
    source = ROOT / "brokers" / name / METADATA
    for path in [*source.glob("*.log"), *source.glob(f"{0:020}-*.checkpoint")]:
        shutil.copy(path, bare)
    without = read_partition(bare)
    before, changes, with_snapshot = None, 0, 0
    for last in range(whole.end_offset):
        state = read_state(partition, last)
        assert (state.end_offset, state.notes, state.stop) == (last + 1, (), None)
        if state.snapshot is not None:
            assert state.snapshot.end_offset <= last + 1
            with_snapshot += 1
        assert read_state(without, last).image == state.image
        if before is not None:
            found = list(differences(before.image, state.image))
            assert bool(found) == (before.image != state.image)
            # A record is about few things; the end of a transaction is about many.
            assert len(found) <= 3 or before.transaction is not None
            changes += len(found)
        before = state
    assert before is not None
    assert before.image == whole.image
    assert changes > 100
    assert with_snapshot > 20


def test_offsets_that_are_not_there_are_refused(run: Run, tmp_path: Path) -> None:
    partition = write(
        tmp_path, {segment_name(4): log([meta.NO_OP], 4), snapshot_name(4): snapshot(TOPIC)}
    )
    assert run("--at", "4", partition)[0] == 0
    assert run("--at", "3", partition)[0] == 0  # all of the snapshot
    for last, missing in ((5, "5 up to its end"), (2, "0 up to offset 3")):
        code, out, err = run("--at", str(last), partition)
        assert (code, out) == (2, "")
        assert f"found {last}" in err
        assert f"from offset {missing}" in err
        assert run("--diff", str(last), partition)[0] == 2


def test_records_of_an_open_transaction_do_not_count(run: Run, tmp_path: Path) -> None:
    partition = write(tmp_path, {segment_name(): log([*TOPIC, meta.BEGIN, meta.remove(ID)])})
    code, out, _ = run("--format", "json", partition)
    header, *_, summary = lines(out)
    assert (code, header["open_transaction"]) == (0, 3)
    assert summary == {
        "type": "summary",
        "exit": 0,
        "counts": {"topic": 1, "partition": 2},
    }
    assert "an open transaction begins at offset 3" in run(partition)[1]


# --- differences


def test_what_differs_is_shown_in_order(run: Run, tmp_path: Path) -> None:
    values = [
        *TOPIC,
        meta.topic("gone", OTHER),
        meta.config("orders", "a", "1"),
        meta.config("orders", "b", "1"),
        meta.NO_OP,
        meta.remove(OTHER),
        meta.topic("new", OTHER),
        meta.partition(ID, 2),
        meta.change(ID, 0, in_sync=[]),
        meta.config("orders", "a", None),
        meta.config("orders", "b", "2"),
        meta.config("orders", "ssl.key.password", "hidden"),
        meta.feature("group.version", 1),
    ]
    partition = write(tmp_path, {segment_name(): log(values)})
    code, out, _ = run("--diff", "6", partition)
    assert code == 0
    assert out.splitlines()[1:] == [
        f"removed topic gone: topic_id {OTHER}, partitions 0",
        f"added topic new: topic_id {OTHER}, partitions 0",
        "changed topic orders: partitions 2 -> 3",
        "changed partition orders-0: isr [1] -> [], partition_epoch 0 -> 1",
        *[line for line in out.splitlines() if line.startswith("added partition orders-2: ")],
        "removed config TOPIC orders a: value 1",
        "changed config TOPIC orders b: value 1 -> 2",
        "added config TOPIC orders ssl.key.password: value redacted",
        "added feature group.version: level 1",
        "4 additions, 2 removals, 3 changes",
    ]
    code, out, _ = run("--format", "json", "--diff", "6", partition)
    header, *found, summary = lines(out)
    assert (header["before"]["end_offset"], header["after"]["end_offset"]) == (7, len(values))
    assert {line["type"] for line in found} == {"change"}
    assert found[3] == {
        "type": "change",
        "change": "changed",
        "kind": "partition",
        "key": {"topic": "orders", "partition": 0},
        "before": {"isr": [1], "partition_epoch": 0},
        "after": {"isr": [], "partition_epoch": 1},
    }
    assert summary["counts"] == {"added": 4, "removed": 2, "changed": 3}


def test_a_node_differs_from_another_by_what_it_lacks(run: Run, tmp_path: Path) -> None:
    one = write(tmp_path / "1", {segment_name(): log(TOPIC)})
    two = write(tmp_path / "2", {segment_name(): log(TOPIC[:2])})
    assert "added partition orders-1" in run("--diff", two, one)[1]
    assert "removed partition orders-1" in run("--diff", one, two)[1]
    assert run("--diff", two, "--at", "1", one)[1].endswith("0 additions, 0 removals, 0 changes\n")
    assert run("--diff", tmp_path, one)[0] in (2, 5)  # which holds no log


def test_differences_are_no_commands(run: Run) -> None:
    code, _, err = run("--diff", "3", "--format", "commands", ROOT / "brokers/4.3.1/clean")
    assert code == 2
    assert "--diff: expected --format text or json, found commands" in err


# --- control records


def test_voters_and_the_kraft_version_are_those_of_the_newest_records(
    run: Run, tmp_path: Path
) -> None:
    def voters(*numbers: int) -> bytes:
        return voters_value(
            [
                {
                    "voterId": number,
                    "voterDirectoryId": ID,
                    "endpoints": [{"name": "C", "host": "h", "port": 9093}],
                    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                }
                for number in numbers
            ]
        )[2:]

    version = struct.pack(">hhb", 0, 1, 0)
    checkpoint = b"".join(
        [
            control_batch(0, 3, struct.pack(">hqb", 0, 1, 0)),
            control_batch(1, KRAFT_VERSION, version),
            control_batch(2, KRAFT_VOTERS, voters(1, 2)),
            batch(3, [record(value) for value in TOPIC]),
            control_batch(6, 4, struct.pack(">hb", 0, 0)),
        ]
    )
    segment = control_batch(4, KRAFT_VOTERS, voters(3, 1)) + control_batch(5, KRAFT_VOTERS, b"x")
    partition = write(tmp_path, {snapshot_name(4): checkpoint, segment_name(4): segment})
    state = read_state(read_partition(partition))
    assert [offset for offset, _ in state.history.voters] == [3, 4]
    assert state.history.kraft_versions == [(3, 1)]
    code, out, _ = run("--format", "json", partition)
    assert code == 4
    found = lines(out)
    assert [line["id"] for line in found if line["type"] == "voter"] == [1, 3]
    assert {"type": "feature", "name": "kraft.version", "level": 1} in found
    [problem] = [line for line in found if line["type"] == "problem"]
    assert (problem["kind"], problem["offset"]) == ("record", 5)
    code, out, _ = run("--at", "3", partition)
    assert code == 0
    assert f"  2   {ID}  C://h:9093  0..1" in out


# --- what cannot be replayed


@pytest.mark.parametrize(
    ("value", "record_type", "reason"),
    [
        (b"\1\x63\0", "type 99", "expected a known type, found type 99, version 0"),
        (b"\1\2\x63body", "TopicRecord", "expected a known version, found type 2, version 99"),
        (b"\2\2\0body", "metadata record", "frame version"),
        (meta.change(ID, 7), "PartitionChangeRecord", "expected a known partition"),
        (meta.partition(OTHER), "PartitionRecord", "expected a known topic"),
        (meta.remove(OTHER), "RemoveTopicRecord", "expected a known topic"),
        (meta.partition(ID, 0, [1, 2], [ID]), "PartitionRecord", "expected a directory for each"),
        (
            metadata_value("AccessControlRecord"),
            "AccessControlRecord",
            "expected a type that brokers replay",
        ),
        (meta.END, "EndTransactionRecord", "expected an open transaction"),
        (
            metadata_value("FenceBrokerRecord", id=1, epoch=2),
            "FenceBrokerRecord",
            "expected a registered broker, found 1",
        ),
    ],
)
def test_a_record_that_brokers_cannot_apply_is_listed(
    value: bytes, record_type: str, reason: str, run: Run, tmp_path: Path
) -> None:
    partition = write(tmp_path, {segment_name(): log([*TOPIC, value, meta.change(ID, 0, [3])])})
    code, out, _ = run("--format", "json", partition)
    assert code == 4
    [problem] = [line for line in lines(out) if line["type"] == "problem"]
    assert (problem["offset"], problem["record"]) == (3, record_type)
    assert reason in problem["reason"]
    # The records behind it count.
    changed = [line for line in lines(out) if line.get("partition") == 0]
    assert changed[-1]["topic"] is None or changed[-1]["replicas"] == [3]
    for form in ("text", "commands"):
        code, out, _ = run("--format", form, partition)
        assert code == 4
        assert f"{record_type} at offset 3: " in out


@pytest.mark.parametrize(
    ("files", "kind", "offset"),
    [
        ({segment_name(): log(TOPIC) + flip(log([meta.NO_OP], 3), -1)}, "damage", 3),
        (
            {
                segment_name(): log(TOPIC) + flip(log([meta.NO_OP], 3), -1),
                segment_name(4): log([meta.remove(ID)], 4),
            },
            "damage",
            3,
        ),
        ({segment_name(7): log(TOPIC, 7)}, "gap", 0),
        (
            {
                segment_name(): log([*TOPIC, meta.NO_OP]),
                snapshot_name(4): flip(snapshot([meta.remove(ID)]), 200),
            },
            "snapshot",
            4,
        ),
    ],
)
def test_damage_is_a_problem_and_what_is_behind_it_does_not_count(
    files: Mapping[str, bytes], kind: str, offset: int, run: Run, tmp_path: Path
) -> None:
    partition = write(tmp_path, files)
    code, out, _ = run("--format", "json", partition)
    assert code == 4
    [problem] = [line for line in lines(out) if line["type"] == "problem"]
    assert (problem["kind"], problem["offset"]) == (kind, offset)
    assert [line["topic"] for line in lines(out) if line["type"] == "topic"] == ["orders"]
    assert "\ndamage: " in run(partition)[1]
    if kind == "damage":
        assert run("--at", "2", partition)[0] == 0


def test_a_torn_write_at_the_end_is_no_problem(run: Run, tmp_path: Path) -> None:
    partition = write(tmp_path, {segment_name(): log(TOPIC) + log([meta.NO_OP], 3)[:-2]})
    assert run(partition)[0] == 0


@pytest.mark.parametrize("name", [segment_name(), snapshot_name(3)])
def test_a_file_that_cannot_be_read_makes_the_run_incomplete(name: str, tmp_path: Path) -> None:
    partition = read_partition(
        write(tmp_path, {segment_name(): log(TOPIC), snapshot_name(3): snapshot(TOPIC)})
    )
    (tmp_path / name).unlink()
    printed: list[str] = []
    assert emit_image(printed.append, read_state(partition)) == 5
    header, problem, *_ = map(json.loads, printed)
    assert header["type"] == "header"
    assert (problem["type"], problem["kind"]) == ("problem", "unreadable")
    assert name in problem["reason"]
    printed.clear()
    assert print_image(printed.append, read_state(partition), wide=False) == 5
    assert printed[1].startswith("incomplete: ")


@pytest.mark.parametrize("seed", range(80))
def test_a_damaged_file_ends_in_words(seed: int, run: Run, tmp_path: Path) -> None:
    rng = Random(seed)
    history = History(seed)
    data = {segment_name(): bytearray(history.log(rng.randint(1, 40)))}
    data[snapshot_name(2)] = bytearray(snapshot(TOPIC))
    for content in data.values():
        for _ in range(rng.randint(0, 2)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    partition = write(tmp_path, {name: bytes(content) for name, content in data.items()})
    for form in FORMATS:
        code, out, err = run("--format", form, partition)
        assert code in (0, 4)
        assert out
        assert err == ""
    assert run("--format", "json", "--diff", "1", partition)[0] in (0, 2, 4)


@pytest.mark.parametrize(
    "path", [ROOT / "brokers/2.8.2/clean", ROOT / "brokers/4.3.1/clean/groups-0"]
)
def test_no_metadata_log_is_wrong_usage(path: Path, run: Run) -> None:
    code, out, err = run(path)
    assert (code, out) == (2, "")
    assert "expected one directory __cluster_metadata-0, found none" in err


def test_two_metadata_logs_are_too_many(run: Run) -> None:
    code, _, err = run(ROOT / "brokers/3.9.1/clean", ROOT / "brokers/4.3.1/clean")
    assert code == 2
    assert "found 2 of them" in err


def test_the_log_directories_of_a_configuration(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path}/gone\nmetadata.log.dir={tmp_path}/there\n")
    assert run("--config", config)[0] == 5
    write(tmp_path / "there", {segment_name(): log(TOPIC)})
    (tmp_path / "there/meta.properties").write_text("version=1\nnode.id=1\n")
    code, out, err = run("--config", config)
    assert (code, err) == (0, "")
    assert "TOPIC orders" in out
    assert run(tmp_path / "there", tmp_path / "gone")[0] == 5


# --- secrets


def test_secrets_are_in_no_output(run: Run, tmp_path: Path) -> None:
    secret = "PLANTED"
    values = [
        *TOPIC,
        *secret_values(secret),
        meta.NO_OP,
    ]
    partition = write(tmp_path, {segment_name(): log(values)})
    for form in FORMATS:
        code, out, err = run("--format", form, partition)
        assert code == 0
        assert "alice" in out
        assert secret not in out + err
    for form in ("text", "json"):
        for at in ("0", "3", "5"):
            code, out, err = run("--format", form, "--diff", at, partition)
            assert code == 0
            assert "jaas" in out or at == "5"
            assert secret not in out + err
    assert secret.encode() in (partition / f"{0:020}.log").read_bytes()


# --- odd values


def test_no_unsafe_code_point_leaves_raw(run: Run, tmp_path: Path) -> None:
    unsafe = "".join(
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if category(char) in {"Cc", "Cf", "Zl", "Zp"}
    )
    values = [
        meta.topic(unsafe, ID),
        meta.partition(ID, 0),
        meta.config(unsafe, unsafe, unsafe),
        meta.config(unsafe, unsafe, unsafe, kind=32),
        quota(5.0, unsafe),
        metadata_value("UserScramCredentialRecord", name=unsafe, mechanism=1),
        metadata_value("DelegationTokenRecord", tokenId=unsafe, owner=unsafe, renewers=[unsafe]),
        metadata_value("FeatureLevelRecord", name=unsafe, featureLevel=1),
        metadata_value(
            "RegisterBrokerRecord",
            rack=unsafe,
            endPoints=[{"name": unsafe, "host": unsafe, "port": 1, "securityProtocol": 9}],
        ),
        metadata_value("AccessControlEntryRecord", principal=unsafe, resourceName=unsafe),
        metadata_value("ClearElrRecord", topicName=f"{unsafe}!"),
    ]
    partition = write(tmp_path, {segment_name(): log(values)})
    for options in (*(("--format", form) for form in FORMATS), ("--diff", "0")):
        code, out, _ = run(*options, partition)
        assert code == 4
        assert set(out) & set(unsafe) == {"\n"}
    entries = lines(run("--format", "json", partition)[1])
    assert {line["topic"] for line in entries if line["type"] == "topic"} == {unsafe}


def quota(value: float, user: str) -> bytes:
    entity = [{"entityType": "user", "entityName": user}]
    return metadata_value("ClientQuotaRecord", entity=entity, key="k", value=value, remove=False)


def test_a_quota_that_is_no_number_is_a_string(run: Run, tmp_path: Path) -> None:
    values = [quota(float("nan"), "a"), quota(float("-inf"), "b"), quota(1.5, "c")]
    partition = write(tmp_path, {segment_name(): log(values)})
    found = [line for line in lines(run("--format", "json", partition)[1]) if "entity" in line]
    assert [line["value"] for line in found] == ["nan", "-inf", 1.5]
    assert "user a: no option holds k=nan" in run("--format", "commands", partition)[1]
    assert "user a  k      nan" in run(partition)[1]
    assert run("--diff", "2", partition)[1].endswith("0 additions, 0 removals, 0 changes\n")


# --- commands


def test_commands_are_one_a_line_and_hold_any_name(run: Run, tmp_path: Path) -> None:
    name, value = "a b'$(rm)\n", "x, y=[z"
    values = [
        meta.topic(name, ID),
        meta.partition(ID, 0, [1, 2], [ID, OTHER]),
        meta.partition(ID, 1, [2, 3], [ID, OTHER]),
        meta.config(name, "cleanup.policy", "compact,delete"),
        meta.config(name, "odd", value),
        meta.config(name, "equal", "a=b"),
        meta.config("", "log.retention.ms", "5", kind=4),
        metadata_value(
            "ClientQuotaRecord",
            entity=[
                {"entityType": "client-id", "entityName": None},
                {"entityType": "user", "entityName": "al ice"},
            ],
            key="producer_byte_rate",
            value=1024.5,
            remove=False,
        ),
        metadata_value(
            "AccessControlEntryRecord",
            id=ID,
            resourceType=2,
            resourceName="or ders",
            patternType=4,
            principal="User:CN=a b",
            host="*",
            operation=10,
            permissionType=2,
        ),
    ]
    code, out, _ = run("--format", "commands", write(tmp_path, {segment_name(): log(values)}))
    assert code == 0
    found = [line for line in out.splitlines() if not line.startswith(("#", ":"))]
    assert "no option holds x, y=[z" in out
    words = [shlex.split(line.replace("$'", "'")) for line in found]
    assert all(line[1:3] == ["--bootstrap-server", "$BOOTSTRAP"] for line in words)
    assert words[0][3:] == [
        "--create", "--topic", r"a b\x27$(rm)\x0a", "--replica-assignment", "1:2,2:3",
        "--config", "cleanup.policy=compact,delete",
    ]  # fmt: skip
    assert [line[3:] for line in words[1:]] == [
        [
            "--alter", "--entity-type", "topics", "--entity-name", r"a b\x27$(rm)\x0a",
            "--add-config", "equal=[a=b]",
        ],
        [
            "--alter", "--entity-type", "brokers", "--entity-default", "--add-config",
            "log.retention.ms=5",
        ],
        [
            "--alter", "--entity-type", "users", "--entity-name", "al ice", "--entity-type",
            "clients", "--entity-default", "--add-config", "producer_byte_rate=1024.5",
        ],
        [
            "--add", "--topic", "or ders", "--resource-pattern-type", "prefixed", "--operation",
            "DescribeConfigs", "--deny-principal", "User:CN=a b", "--deny-host", "*",
        ],
    ]  # fmt: skip


def test_partitions_of_unequal_replicas_are_made_with_the_fewest(run: Run, tmp_path: Path) -> None:
    values = [meta.topic("orders", ID), meta.partition(ID, 0, [1, 2]), meta.partition(ID, 1, [3])]
    _, out, _ = run("--format", "commands", write(tmp_path, {segment_name(): log(values)}))
    assert "--replica-assignment 1,3" in out
    assert "# Topic orders: its partitions have unequal counts of replicas" in out


@pytest.mark.parametrize("partitions", [[meta.partition(ID, 1)], []])
def test_a_topic_that_lacks_a_partition_is_a_comment(
    partitions: list[bytes], run: Run, tmp_path: Path
) -> None:
    values = [meta.topic("orders", ID), *partitions]
    _, out, _ = run("--format", "commands", write(tmp_path, {segment_name(): log(values)}))
    assert f"# Topic orders of the id {ID}: its records are incomplete." in out
    assert "--create" not in out


@pytest.mark.parametrize(
    ("value", "comment"),
    [
        (meta.config("gone", "a", "b"), "Configs of TOPIC gone: there is no such resource."),
        (meta.config("x", "a", "b", kind=99), "Configs of 99 x: there is no such resource."),
        (meta.config("1", "bad name", "b", kind=4), "Config bad name of BROKER 1: no option"),
        (quota(1.0, ""), "Quotas of user : no option holds k=1.0"),
        (
            metadata_value("ClientQuotaRecord", entity=[{"entityType": "x", "entityName": "y"}]),
            "Quotas of x y: no option holds",
        ),
        (
            metadata_value("AccessControlEntryRecord", id=ID, principal="User:a", resourceType=1),
            f"ACL {ID} of User:a on : no option holds it.",
        ),
        (
            metadata_value("DelegationTokenRecord", tokenId="t", owner="User:a"),
            "Delegation token t of User:a: make a new one by hand.",
        ),
    ],
)
def test_what_no_tool_can_be_given_is_a_comment(
    value: bytes, comment: str, run: Run, tmp_path: Path
) -> None:
    partition = write(tmp_path, {segment_name(): log([value])})
    code, out, _ = run("--format", "commands", partition)
    assert code == 0
    assert f"\n# {comment}" in out
    assert "kafka-" not in out.replace("kafka-reassign", "")


def test_a_topic_without_replicas_is_a_comment(run: Run, tmp_path: Path) -> None:
    values = [
        meta.topic("orders", ID),
        metadata_value("PartitionRecord", topicId=ID, partitionId=0, replicas=[]),
    ]
    _, out, _ = run("--format", "commands", write(tmp_path, {segment_name(): log(values)}))
    assert f"# Topic orders of the id {ID}: a partition has no replicas." in out
