"""What each record does to an image, without a broker beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.metadata.image import ConfigResource, MetadataImage, ScramUser
from kdump.metadata.replay import read_state
from kdump.storage.logdir import read_partition
from support import forge_metadata as meta
from support.forge_metadata import METADATA, log, segment_name
from support.metadata_history import metadata_value

ID, OTHER = "b25lLXRvcGljLTEyMzQ1Ng", "b3RoZXItdG9waWMtMTIzNA"
MIGRATING = 22 * "A"
TOPIC = [meta.topic("orders", ID), meta.partition(ID, 0, [1, 2], [ID, OTHER])]


def image(tmp_path: Path, *values: bytes, problems: int = 0) -> MetadataImage:
    """The image of these records, of which so many cannot be applied."""
    (tmp_path / METADATA).mkdir(exist_ok=True)
    (tmp_path / segment_name()).write_bytes(log(values))
    state = read_state(read_partition(tmp_path / METADATA))
    assert len(state.notes) == problems
    return state.image


def change(**values: Any) -> bytes:
    known: dict[str, Any] = {"topicId": ID, "partitionId": 0, "leader": -2}
    known |= {"leaderRecoveryState": -1}
    return metadata_value("PartitionChangeRecord", **(known | values))


def broker(version: int | None = None, **values: Any) -> bytes:
    return metadata_value(
        "RegisterBrokerRecord", version, **({"brokerId": 1, "brokerEpoch": 5} | values)
    )


def broker_change(**values: Any) -> bytes:
    return metadata_value(
        "BrokerRegistrationChangeRecord", **({"brokerId": 1, "brokerEpoch": 5} | values)
    )


def test_a_change_counts_the_partition_epoch_and_one_of_the_leader_its_epoch(
    tmp_path: Path,
) -> None:
    found = image(tmp_path, *TOPIC, change(isr=[2]), change(leader=2), change(leader=2))
    partition = found.topics[0].partitions[0]
    assert (partition.in_sync, partition.leader) == ((2,), 2)
    assert (partition.leader_epoch, partition.partition_epoch) == (2, 3)


def test_a_change_of_the_recovery_state_stays_until_the_next(tmp_path: Path) -> None:
    recovering = [*TOPIC, change(leaderRecoveryState=1), change(isr=[1])]
    assert image(tmp_path, *recovering).topics[0].partitions[0].recovering
    recovered = [*recovering, change(leaderRecoveryState=0)]
    assert not image(tmp_path, *recovered).topics[0].partitions[0].recovering
    wrong = [*recovering, change(leaderRecoveryState=2, isr=[])]
    assert image(tmp_path, *wrong, problems=1).topics[0].partitions[0].in_sync == (1,)


@pytest.mark.parametrize(
    ("fields", "directories"),
    [
        ({"replicas": [1, 2, 3]}, None),  # two directories are left
        ({"replicas": [1], "directories": [ID, OTHER]}, None),
        ({"replicas": [1], "directories": []}, (MIGRATING,)),
        ({"replicas": [3], "directories": [OTHER]}, (OTHER,)),
        ({"directories": [OTHER, ID]}, (OTHER, ID)),
    ],
)
def test_directories_are_as_many_as_replicas(
    fields: dict[str, Any], directories: tuple[str, ...] | None, tmp_path: Path
) -> None:
    found = image(tmp_path, *TOPIC, change(**fields), problems=int(directories is None))
    assert found.topics[0].partitions[0].directories == (directories or (ID, OTHER))


def test_elr_is_cleared_by_name_and_for_all_topics(tmp_path: Path) -> None:
    values = [
        *TOPIC,
        change(eligibleLeaderReplicas=[2], lastKnownElr=[1]),
        meta.topic("other", OTHER),
        meta.partition(OTHER, 0),
        change(topicId=OTHER, eligibleLeaderReplicas=[1]),
    ]

    def eligible(*more: bytes, problems: int = 0) -> list[tuple[tuple[int, ...], int]]:
        topics = image(tmp_path, *values, *more, problems=problems).topics
        partitions = (topic.partitions[0] for topic in topics)
        return [
            (each.eligible + each.last_known_eligible, each.partition_epoch) for each in partitions
        ]

    assert eligible() == [((2, 1), 1), ((1,), 1)]
    of_one = metadata_value("ClearElrRecord", topicName="other")
    assert eligible(of_one) == eligible(of_one, of_one) == [((2, 1), 1), ((), 2)]
    assert eligible(metadata_value("ClearElrRecord", topicName="")) == [((), 2), ((), 2)]
    assert eligible(metadata_value("ClearElrRecord", topicName="x"), problems=1) == eligible()


def test_fields_that_a_version_lacks_have_their_defaults(tmp_path: Path) -> None:
    found = image(tmp_path, broker(0, fenced=True, inControlledShutdown=True)).brokers[1]
    assert (found.fenced, found.controlled_shutdown, found.directories) == (True, False, ())
    assert found.cordoned_directories is None


def test_a_broker_is_fenced_and_unfenced_in_its_epoch(tmp_path: Path) -> None:
    fence = metadata_value("FenceBrokerRecord", id=1, epoch=5)
    unfence = metadata_value("UnfenceBrokerRecord", id=1, epoch=5)
    late = metadata_value("UnfenceBrokerRecord", id=1, epoch=4)
    assert image(tmp_path, broker(), fence, late, problems=1).brokers[1].fenced
    assert not image(tmp_path, broker(), fence, unfence).brokers[1].fenced
    unknown = metadata_value("FenceBrokerRecord", id=2, epoch=5)
    assert list(image(tmp_path, broker(), unknown, problems=1).brokers) == [1]


def test_a_change_of_a_broker_replaces_only_what_it_says(tmp_path: Path) -> None:
    values = [
        broker(fenced=True, logDirs=[OTHER, ID]),
        broker_change(fenced=-1),
        broker_change(inControlledShutdown=1),
        broker_change(cordonedLogDirs=[ID]),
        broker_change(),
    ]
    found = image(tmp_path, *values).brokers[1]
    assert (found.fenced, found.controlled_shutdown) == (False, True)
    assert (found.directories, found.cordoned_directories) == (tuple(sorted([ID, OTHER])), (ID,))
    fenced = image(tmp_path, *values, broker_change(fenced=1, logDirs=[ID])).brokers[1]
    assert (fenced.fenced, fenced.directories) == (True, (ID,))
    for wrong in ({"fenced": 2}, {"inControlledShutdown": 2}, {"brokerEpoch": 4, "fenced": 1}):
        assert image(tmp_path, *values, broker_change(**wrong), problems=1).brokers[1] == found


def test_brokers_and_controllers_come_and_go(tmp_path: Path) -> None:
    controller = metadata_value(
        "RegisterControllerRecord",
        controllerId=3,
        endPoints=[{"name": "C", "host": "h", "port": 1, "securityProtocol": 1}],
    )
    found = image(tmp_path, broker(), controller)
    assert (list(found.brokers), list(found.controllers)) == ([1], [3])
    gone = [
        metadata_value("UnregisterBrokerRecord", brokerId=1, brokerEpoch=5),
        metadata_value("UnregisterControllerRecord", controllerId=3),
    ]
    found = image(tmp_path, broker(), controller, *gone)
    assert (found.brokers, found.controllers) == ({}, {})
    nameless = broker(endPoints=[{"name": "", "host": "h", "port": 1, "securityProtocol": 0}])
    assert image(tmp_path, nameless, problems=1).brokers == {}


def test_a_feature_of_level_0_is_none(tmp_path: Path) -> None:
    values = [meta.feature("a", 1), meta.feature("b", 2), meta.feature("kraft.version", 1)]
    assert image(tmp_path, *values).features == {"a": 1, "b": 2}
    assert image(tmp_path, *values, meta.feature("a", 0)).features == {"b": 2}
    removed = metadata_value("RemoveFeatureLevelRecord", name="b")
    assert image(tmp_path, *values, removed).features == {"a": 1}


def test_access_quotas_and_tokens_are_removed_by_their_keys(tmp_path: Path) -> None:
    entity = [{"entityType": "user", "entityName": None}]
    values = [
        metadata_value("AccessControlEntryRecord", id=ID),
        metadata_value("UserScramCredentialRecord", name="u", mechanism=1, iterations=4096),
        metadata_value("UserScramCredentialRecord", name="u", mechanism=2, iterations=8192),
        metadata_value("DelegationTokenRecord", tokenId="t"),
        metadata_value("ClientQuotaRecord", entity=entity, key="k", value=1.0, remove=False),
        metadata_value("ClientQuotaRecord", entity=entity, key="l", value=2.0, remove=False),
        meta.config("1", "a", "b", kind=4),
        metadata_value("ProducerIdsRecord", nextProducerId=7),
        metadata_value("ZkMigrationStateRecord", zkMigrationState=3),
    ]
    found = image(tmp_path, *values)
    assert (list(found.acls), list(found.tokens)) == ([ID], ["t"])
    assert found.scram == {ScramUser("u", 1): 4096, ScramUser("u", 2): 8192}
    assert found.quotas == {(("user", None),): {"k": 1.0, "l": 2.0}}
    assert found.configs == {ConfigResource(4, "1"): {"a": "b"}}
    assert (found.next_producer_id, found.zk_migration) == (7, 3)
    gone = [
        metadata_value("RemoveAccessControlEntryRecord", id=ID),
        metadata_value("RemoveUserScramCredentialRecord", name="u", mechanism=1),
        metadata_value("RemoveDelegationTokenRecord", tokenId="t"),
        metadata_value("ClientQuotaRecord", entity=entity, key="k", value=0.0, remove=True),
        meta.config("1", "a", None, kind=4),
    ]
    found = image(tmp_path, *values, *gone)
    assert (found.acls, found.tokens, found.configs) == ({}, {}, {})
    assert found.scram == {ScramUser("u", 2): 8192}
    assert found.quotas == {(("user", None),): {"l": 2.0}}
    again = metadata_value("RemoveAccessControlEntryRecord", id=ID)
    image(tmp_path, *values, *gone, again, problems=1)
    assert image(tmp_path, meta.NO_OP).next_producer_id == -1


def test_a_transaction_inside_another_does_not_begin(tmp_path: Path) -> None:
    values = [meta.BEGIN, *TOPIC, meta.BEGIN, meta.NO_OP, meta.END]
    assert [topic.name for topic in image(tmp_path, *values, problems=1).topics] == ["orders"]
    assert image(tmp_path, *values[:-1], meta.ABORT, problems=1).topics == ()
    assert image(tmp_path, meta.ABORT, problems=1).topics == ()
