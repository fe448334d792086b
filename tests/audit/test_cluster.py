"""The image of the cluster that a node's metadata log gives, and what it makes legal for topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.facts.cluster import (
    ClusterImage,
    Copies,
    Node,
    Replicas,
    find_cluster,
    read_cluster,
)
from kdump.audit.facts.settings import (
    Sources,
    log_directories,
    longest_transaction_ms,
    read_config,
    recovery_threads,
    topic_settings,
)
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection
from kdump.errors import SourceError
from kdump.storage.logdir import LogDirectory, open_path, read_partition
from support import forge_metadata as meta
from support.fixtures_loader import FIXTURES, ROOT, copy_fixture, topic_configs
from support.forge import batch, flip, record
from support.forge_metadata import METADATA, log, segment_name, snapshot, snapshot_name

ID, OTHER = "b25lLXRvcGljLTEyMzQ1Ng", "b3RoZXItdG9waWMtMTIzNA"
TOPIC = [meta.topic("orders", ID), meta.partition(ID, 0), meta.partition(ID, 1)]
KRAFT = [name for name in FIXTURES if name.startswith(("3.", "4."))]


def image(tmp_path: Path, files: Mapping[str, bytes]) -> ClusterImage:
    (tmp_path / METADATA).mkdir()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return read_cluster(read_partition(tmp_path / METADATA))


def of_log(tmp_path: Path, *values: bytes) -> ClusterImage:
    return image(tmp_path, {segment_name(): log(values)})


# --- the image


def test_topics_and_their_replicas(tmp_path: Path) -> None:
    found = of_log(tmp_path, *TOPIC, meta.NO_OP)
    assert (found.complete, found.end_offset) == (True, 4)
    assert (found.topics, found.names) == ({"orders": ID}, {ID: "orders"})
    assert found.replicas[ID][1].nodes == (1,)


def test_a_change_replaces_only_what_it_says(tmp_path: Path) -> None:
    found = of_log(tmp_path, *TOPIC, meta.change(ID, 0, [3, 4]))
    before = found.replicas[ID][1]
    changed = replace(before, nodes=(3, 4), established=True)
    assert (found.replicas[ID][0], before.established) == (changed, False)


def test_a_removed_topic_takes_its_partitions_and_configs_along(tmp_path: Path) -> None:
    found = of_log(
        tmp_path, *TOPIC, meta.config("orders", "cleanup.policy", "compact"), meta.remove(ID)
    )
    assert (found.topics, found.names, found.replicas, found.topic_configs) == ({}, {}, {}, {})
    assert found.deleted == {ID}


def test_a_topic_that_was_made_again_has_its_new_id(tmp_path: Path) -> None:
    found = of_log(tmp_path, *TOPIC, meta.remove(ID), meta.topic("orders", OTHER))
    assert found.topics == {"orders": OTHER}


def test_configs_of_topics_and_brokers(tmp_path: Path) -> None:
    found = of_log(
        tmp_path,
        meta.config("orders", "a", "1"),
        meta.config("orders", "b", "2"),
        meta.config("orders", "a", None),
        meta.config("7", "log.retention.ms", "5", kind=4),
        meta.config("", "log.retention.ms", "6", kind=4),
        meta.config("7", "level", "DEBUG", kind=8),
    )
    assert found.topic_configs == {"orders": {"b": "2"}}
    assert found.broker_configs == {"7": {"log.retention.ms": "5"}, "": {"log.retention.ms": "6"}}


def test_records_of_a_transaction_count_once_it_has_ended(tmp_path: Path) -> None:
    found = of_log(tmp_path, meta.BEGIN, *TOPIC, meta.END, meta.BEGIN, meta.remove(ID))
    assert found.topics == {"orders": ID}


def test_records_of_an_aborted_transaction_do_not_count(tmp_path: Path) -> None:
    assert of_log(tmp_path, meta.BEGIN, *TOPIC, meta.ABORT, meta.NO_OP).topics == {}


def test_the_newest_snapshot_stands_for_the_log_before_it(tmp_path: Path) -> None:
    found = image(
        tmp_path,
        {
            segment_name(2): log([meta.topic("gone", OTHER), meta.config("orders", "a", "1")], 2),
            snapshot_name(1): snapshot([meta.topic("older", OTHER)]),
            snapshot_name(3): snapshot(TOPIC),
        },
    )
    assert (found.complete, found.end_offset) == (True, 4)
    assert found.topics == {"orders": ID}
    assert found.topic_configs == {"orders": {"a": "1"}}


def test_an_older_snapshot_stands_in_for_a_damaged_one(tmp_path: Path) -> None:
    found = image(
        tmp_path,
        {
            segment_name(): log([*TOPIC, meta.NO_OP, meta.remove(ID)]),
            snapshot_name(3): snapshot(TOPIC),
            snapshot_name(4): flip(snapshot([meta.topic("x", OTHER)]), 200),
        },
    )
    assert (found.complete, found.topics) == (True, {})
    assert found.deleted == {ID}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({segment_name(): flip(log(TOPIC), -1)}, "bad-checksum"),
        ({segment_name(5): log(TOPIC, 5)}, "offsets 0..4"),
        ({segment_name(): log(TOPIC), segment_name(9): log(TOPIC, 9)}, "offsets 3..8"),
        ({segment_name(): log([b"\1\2\x63body"])}, "version 99"),
        ({segment_name(): log([b"\2\2\0body"])}, "frame version"),
        ({segment_name(): log([TOPIC[0][:-3]])}, "expected"),
        ({segment_name(): log([meta.change(ID, 0, [1])])}, "partition 0"),
        ({segment_name(5): log([], 5), snapshot_name(3): snapshot(TOPIC)}, "offsets 3..4"),
    ],
)
def test_what_cannot_be_read_may_exist_all_the_same(
    files: Mapping[str, bytes], problem: str, tmp_path: Path
) -> None:
    found = image(tmp_path, files)
    assert not found.complete
    assert problem in (found.problem or "")


@pytest.mark.parametrize("tail", [log([meta.remove(ID)])[:-4], bytes(500)])
def test_a_fragment_at_the_end_is_none_of_the_log(tail: bytes, tmp_path: Path) -> None:
    found = image(tmp_path, {segment_name(): log(TOPIC) + tail})
    assert (found.complete, found.topics) == (True, {"orders": ID})


def test_any_cut_leaves_an_image(tmp_path: Path) -> None:
    whole = snapshot(TOPIC)
    (tmp_path / METADATA).mkdir()
    partition = tmp_path / METADATA
    for length in range(0, len(whole), 7):
        (tmp_path / snapshot_name(3)).write_bytes(whole[:length])
        (tmp_path / segment_name()).write_bytes(log(TOPIC)[:length])
        found = read_cluster(read_partition(partition))
        assert found.topics in ({}, {"orders": ID})
        assert bool(found.topics) == (found.end_offset > 0)


def test_compressed_batches_are_read_too(tmp_path: Path) -> None:
    data = batch(0, [record(value) for value in TOPIC], codec="zstd") + log([meta.NO_OP], 3)
    found = image(tmp_path, {segment_name(): data})
    assert (found.topics, found.end_offset) == ({"orders": ID}, 4)


def test_a_log_that_went_away_leaves_the_image_incomplete(tmp_path: Path) -> None:
    (tmp_path / METADATA).mkdir()
    for name, data in ((segment_name(), log(TOPIC)), (snapshot_name(1), snapshot([]))):
        (tmp_path / name).write_bytes(data)
    partition = read_partition(tmp_path / METADATA)
    for name in (segment_name(), snapshot_name(1)):
        (tmp_path / name).unlink()
    found = read_cluster(partition)
    assert (found.complete, found.topics, found.end_offset) == (False, {}, 0)


def test_a_control_batch_that_cannot_be_read_is_no_footer(tmp_path: Path) -> None:
    data = snapshot(TOPIC, footer=False) + batch(9, [record(b"", b"")], control=True)
    found = image(tmp_path, {segment_name(3): log([], 3), snapshot_name(3): data})
    assert not found.complete


@pytest.mark.parametrize("name", KRAFT)
def test_the_image_of_real_nodes(name: str) -> None:
    target = open_path(ROOT / "brokers" / name)
    assert isinstance(target, LogDirectory)
    found = find_cluster([target])
    assert found is not None
    assert found.complete
    known = {
        (topic, partition)
        for topic, topic_id in found.topics.items()
        for partition in found.replicas[topic_id]
    }
    on_disk = {path.name.rpartition("-")[::2] for path in target.partition_paths}
    assert {(topic, str(partition)) for topic, partition in known} == {
        pair for pair in on_disk if pair[0] != "__cluster_metadata"
    }
    for topic, configs in topic_configs(name).items():
        settings = topic_settings(topic, Sources(found), cleaned=False)
        assert settings.origin == "__cluster_metadata-0"
        assert settings.compacted == ("compact" in configs["cleanup.policy"])
        assert settings.index_interval_bytes == int(configs["index.interval.bytes"])
        assert settings.segment_index_bytes == int(configs["segment.index.bytes"])
        if settings.retention_ms is not None and not settings.compacted:
            assert settings.retention_ms == int(configs["retention.ms"])


def test_no_metadata_log_no_image() -> None:
    target = open_path(ROOT / "brokers/2.8.2/clean")
    assert isinstance(target, LogDirectory)
    assert find_cluster([target]) is None


# --- the copies of a partition on other nodes


def test_the_copies_of_a_partition_are_on_other_nodes(tmp_path: Path) -> None:
    found = of_log(
        tmp_path,
        meta.topic("orders", ID),
        meta.partition(ID, 0, [2, 1, 3], in_sync=[3, 1]),
        meta.partition(ID, 1, [1, 2], in_sync=[1]),
        meta.partition(ID, 2, [1]),
        meta.partition(ID, 3, [1, 2, 3]),
        meta.change(ID, 3, [4, 1, 5], in_sync=[5, 1]),
        meta.partition(ID, 4, [1, 2, 3]),
        meta.change(ID, 4, in_sync=[2]),
    )
    node = Node(kraft=True, node_id=1, image=found)
    copies = {number: node.copies("orders", number) for number in range(6)}
    assert copies == {
        0: Copies((2, 3), (3,)),
        1: Copies((2,), ()),
        2: Copies((), ()),
        3: Copies((4, 5), (5,)),  # moved since
        4: Copies((2, 3), (2,)),  # one fell behind since
        5: None,  # no such partition
    }
    assert node.copies("others", 0) is None
    assert Node(kraft=True, node_id=9, image=found).copies("orders", 1) == Copies((1, 2), (1,))
    assert Node(kraft=True, image=found).copies("orders", 0) is None
    assert Node(kraft=True, node_id=1).copies("orders", 0) is None


# --- settings


def sources(tmp_path: Path, values: Sequence[bytes] = (), config: str | None = None) -> Sources:
    found = of_log(tmp_path, *TOPIC, *values)
    pairs = None
    if config is not None:
        (tmp_path / "server.properties").write_text(config)
        pairs = read_config(tmp_path / "server.properties")
    return Sources(found, pairs, node_id=7)


def test_a_topics_own_setting_goes_first(tmp_path: Path) -> None:
    found = sources(
        tmp_path,
        [
            meta.config("orders", "retention.ms", "1"),
            meta.config("7", "log.retention.ms", "2", kind=4),
            meta.config("", "log.retention.ms", "3", kind=4),
        ],
        "log.retention.ms=4\n",
    )
    assert topic_settings("orders", found, cleaned=False).retention_ms == 1
    assert topic_settings("other", found, cleaned=False).retention_ms == 2


def test_all_brokers_dynamic_settings_go_before_the_files(tmp_path: Path) -> None:
    found = sources(
        tmp_path, [meta.config("", "log.retention.ms", "3", kind=4)], "log.retention.ms=4\n"
    )
    assert topic_settings("orders", found, cleaned=False).retention_ms == 3


@pytest.mark.parametrize(
    ("config", "retention_ms"),
    [
        ("", 604_800_000),
        ("log.retention.hours=2\n", 7_200_000),
        ("log.retention.minutes=3\nlog.retention.hours=2\n", 180_000),
        ("log.retention.ms=-1\nlog.retention.hours=2\n", -1),
        ("log.retention.hours=-1\n", -1),
        ("log.cleanup.policy=compact\n", -1),
        ("log.cleanup.policy=compact, delete\nlog.retention.ms=9\n", 9),
    ],
)
def test_retention_from_a_configuration_file(
    config: str, retention_ms: int, tmp_path: Path
) -> None:
    found = Sources(config=sources(tmp_path, config=config).config)
    settings = topic_settings("orders", found, cleaned=False)
    assert settings.retention_ms == retention_ms
    assert settings.compacted is (True if "compact" in config else None)
    assert settings.origin == "the broker's configuration file"


@pytest.mark.parametrize(
    ("values", "config", "expected"),
    [
        ([], None, -1),
        ([meta.config("orders", "retention.bytes", "7")], "log.retention.bytes=9\n", 7),
        ([meta.config("", "log.retention.bytes", "8", kind=4)], "log.retention.bytes=9\n", 8),
        ([], "log.retention.bytes=9\n", 9),
        ([meta.config("orders", "cleanup.policy", "compact")], "log.retention.bytes=9\n", -1),
    ],
)
def test_retention_by_size(
    values: list[bytes], config: str | None, expected: int, tmp_path: Path
) -> None:
    found = sources(tmp_path, values, config)
    assert topic_settings("orders", found, cleaned=False).retention_bytes == expected


def test_retention_by_size_is_unknown_without_a_source() -> None:
    assert topic_settings("orders", Sources(), cleaned=False).retention_bytes is None
    cleaned = topic_settings("orders", Sources(config={}), cleaned=True)
    assert cleaned.retention_bytes is None


def test_unknown_retention_stays_unknown(tmp_path: Path) -> None:
    assert topic_settings("orders", sources(tmp_path), cleaned=False).retention_ms is None


@pytest.mark.parametrize(
    ("policy", "cleaned", "compacted"),
    [
        (None, False, False),
        ("delete", False, False),
        ("compact,delete", False, True),
        ("delete", True, True),
    ],
)
def test_compaction(policy: str | None, cleaned: bool, compacted: bool, tmp_path: Path) -> None:
    values = [] if policy is None else [meta.config("orders", "cleanup.policy", policy)]
    settings = topic_settings("orders", sources(tmp_path, values), cleaned=cleaned)
    assert settings.compacted == compacted
    assert settings.origin == "__cluster_metadata-0"


def test_compaction_is_unknown(tmp_path: Path) -> None:
    assert topic_settings("orders", Sources(), cleaned=False).compacted is None
    assert topic_settings("unheard-of", sources(tmp_path), cleaned=False).compacted is None
    cleaned = topic_settings("orders", Sources(), cleaned=True)
    assert (cleaned.compacted, cleaned.origin) == (True, "the cleaner's checkpoint")


def test_an_incomplete_image_makes_nothing_uncompacted(tmp_path: Path) -> None:
    found = image(tmp_path, {segment_name(): log(TOPIC) + flip(log([meta.NO_OP], 3), -1)})
    assert topic_settings("orders", Sources(found), cleaned=False).compacted is None


def test_remote_storage(tmp_path: Path) -> None:
    found = sources(tmp_path, [meta.config("orders", "remote.storage.enable", "true")])
    assert topic_settings("orders", found, cleaned=False).remote_storage is True
    assert topic_settings("unheard-of", found, cleaned=False).remote_storage is None


def test_a_setting_that_is_no_number_counts_for_nothing(tmp_path: Path) -> None:
    found = sources(tmp_path, [meta.config("orders", "index.interval.bytes", "many")])
    assert topic_settings("orders", found, cleaned=False).index_interval_bytes == 4096


@pytest.mark.parametrize("number", ["-1", "2147483648", "9999999999999999999"])
def test_a_size_that_no_broker_accepts_counts_for_nothing(number: str, tmp_path: Path) -> None:
    config = f"log.index.interval.bytes={number}\nlog.index.size.max.bytes={number}\n"
    found = Sources(config=sources(tmp_path, config=config).config)
    settings = topic_settings("orders", found, cleaned=False)
    assert settings.index_interval_bytes == 4096
    assert settings.segment_index_bytes == 10_485_760


def test_a_topic_without_a_metadata_log_may_be_compacted_whatever_the_file_says(
    tmp_path: Path,
) -> None:
    found = sources(tmp_path, config="log.cleanup.policy=delete\n")
    config = found.config
    assert topic_settings("unheard-of", found, cleaned=False).compacted is None
    assert topic_settings("orders", Sources(config=config), cleaned=False).compacted is None
    cleaned = topic_settings("orders", Sources(config=config), cleaned=True)
    assert (cleaned.compacted, cleaned.retention_ms) == (True, None)


@pytest.mark.parametrize(
    ("config", "directories"),
    [
        ({}, ["/tmp/kafka-logs"]),
        ({"log.dir": "/a"}, ["/a"]),
        ({"log.dir": "/a", "log.dirs": "/b, /c,"}, ["/b", "/c"]),
        ({"log.dirs": "/b", "metadata.log.dir": "/m"}, ["/b", "/m"]),
        ({"log.dirs": "/b", "metadata.log.dir": "/b"}, ["/b"]),
    ],
)
def test_log_directories_of_a_configuration(
    config: Mapping[str, str], directories: list[str]
) -> None:
    assert [str(path) for path in log_directories(config)] == directories


@pytest.mark.parametrize(
    ("text", "longest_ms"),
    [(None, 900_000), ("7200000", 7_200_000), ("0", None), ("2h", None), ("9" * 19, None)],
)
def test_how_long_a_transaction_may_take(text: str | None, longest_ms: int | None) -> None:
    config = {} if text is None else {"transaction.max.timeout.ms": text}
    assert longest_transaction_ms(config) == longest_ms
    assert longest_transaction_ms(None) is None


@pytest.mark.parametrize(
    ("text", "threads"), [("1", 1), (" 8 ", 8), ("0", 2), ("x", 2), ("", 2), ("99999999999", 2)]
)
def test_recovery_has_the_threads_of_the_configuration(text: str, threads: int) -> None:
    assert recovery_threads({"num.recovery.threads.per.data.dir": text}) == threads
    assert recovery_threads(None) == recovery_threads({}) == 2


def test_a_configuration_file_is_small(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_bytes(bytes(1 << 21))
    with pytest.raises(SourceError, match="at most"):
        read_config(tmp_path / "server.properties")


def test_the_images_of_one_cluster_share_what_is_equal(tmp_path: Path) -> None:
    paths = [copy_fixture("4.3.1/clean", tmp_path / name) for name in "ab"]
    context = list_scope(paths, None, TopicSelection()).context
    first, second = (context.nodes[path].image for path in paths)
    assert first is not None
    assert second is not None
    assert first == second == read_cluster(read_partition(paths[1] / "__cluster_metadata-0"))
    assert len(first.replicas) > 1
    assert all(first.replicas[each] is second.replicas[each] for each in first.replicas)
    assert first.topics is second.topics


def test_an_image_shares_nothing_that_differs() -> None:
    image = read_cluster(read_partition(ROOT / "brokers/4.3.1/clean/__cluster_metadata-0"))
    (topic_id, partitions), *_ = image.replicas.items()
    changed = {**partitions, 0: Replicas((7,))}
    other = replace(image, replicas={**image.replicas, topic_id: changed}, topics={})
    assert image.sharing(other) == image
    assert other.sharing(image) == other
