"""Random histories of metadata records, most of which a broker can apply, as batches of a log.

Records are written by the tables that kdump reads them with. A broker's image depends on how it
groups batches where a topic is removed together with changes of its configs, a transaction is
aborted together with later records, or the last SCRAM user is removed together with the addition of
another: here these stand in batches of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

from kdump.format.messages.metadata import messages
from kdump.format.messages.reader import Field, parse_tables, uuid_text
from support.forge import batch, control_batch, record, uvarint
from support.forge_metadata import config
from support.message_writer import write_fields

KRAFT_VERSION, KRAFT_VOTERS = 5, 6
_FEATURES = ("group.version", "transaction.version", "kraft.version")
_SETTINGS = ("retention.ms", "cleanup.policy", "ssl.keystore.password")
_VOTERS = parse_tables(
    """
@ VotersRecord | 6 | 0 | 0+
  version int16 0+
  voters []struct 0+
    voterId int32 0+
    voterDirectoryId uuid 0+
    endpoints []struct 0+
      name string 0+
      host string 0+
      port uint16 0+
    kRaftVersionFeature struct 0+
      minSupportedVersion int16 0+
      maxSupportedVersion int16 0+
"""
)["VotersRecord"]


def metadata_value(kind: str, version: int | None = None, /, **values: Any) -> bytes:
    """The value of a record in its frame, by default of the newest version.

    Fields that are not given have their defaults.
    """
    message = messages()[kind]
    version = message.versions[-1] if version is None else version
    given = {field.name: values.pop(field.name, _default(field)) for field in message.fields}
    assert not values, values
    body = write_fields(message.fields, given, version, version in message.flexible)
    return b"".join(map(uvarint, (1, message.type_id or 0, version))) + body


def secret_values(secret: str) -> list[bytes]:
    """Records that hold a secret: passwords of topic ``orders`` and of brokers, a SCRAM user."""
    known = secret.encode()
    return [
        config("orders", "ssl.keystore.password", secret),
        config("", "listener.name.x.sasl.jaas.config", secret, kind=4),
        config("1", "ssl.keystore.key", secret, kind=4),
        metadata_value(
            "UserScramCredentialRecord",
            name="alice",
            mechanism=1,
            salt=known,
            storedKey=known,
            serverKey=known,
            iterations=4096,
        ),
    ]


def _default(field: Field) -> Any:
    return [] if field.type.startswith("[]") and field.default is not None else field.default


def voters_value(voters: list[dict[str, Any]]) -> bytes:
    """The value of a VotersRecord."""
    fields: Any = {"version": 0, "voters": voters}
    return struct.pack(">h", 0) + write_fields(_VOTERS.fields, fields, 0, True)


class History:
    """A history by seed. ``log()`` is a segment with ``count`` batches."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.topics: dict[str, str] = {}
        self.partitions: dict[str, set[int]] = {}
        self.brokers: dict[int, int] = {}
        self.acls: list[str] = []
        self.offset = 0
        self.in_transaction = False
        #: Where transactions begin, and where they end with the name of the record.
        self.ends: dict[int, str] = {}

    def log(self, count: int) -> bytes:
        return b"".join(self._batch() for _ in range(count))

    def uncounted(self, last: int) -> set[int]:
        """The offsets up to ``last`` in transactions that are aborted, or still open there."""
        found: set[int] = set()
        begin: int | None = None
        for offset, kind in self.ends.items():
            if offset > last:
                break
            if kind == "AbortTransactionRecord" and begin is not None:
                found.update(range(begin, offset + 1))
            begin = offset if kind == "BeginTransactionRecord" else None
        return found if begin is None else found | set(range(begin, last + 1))

    def _batch(self) -> bytes:
        rng = self.rng
        chance = rng.random()
        if chance < 0.04:
            return self._control()
        if chance < 0.1:
            return self._written([self._transaction()])
        if chance < 0.13 and self.topics and not self.in_transaction:
            return self._written([self._remove_topic()])
        if chance < 0.16 and not self.in_transaction:
            return self._written([self._scram()])
        if chance < 0.19:
            return self._written([self._undecodable()])
        return self._written([value for _ in range(rng.randint(1, 4)) for value in self._change()])

    def _written(self, values: list[bytes]) -> bytes:
        codec = self.rng.choice(["none", "none", "zstd"])
        data = batch(self.offset, [record(value) for value in values], codec=codec)
        self.offset += len(values)
        return data

    def _control(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.5:
            kind, value = KRAFT_VERSION, struct.pack(">hhb", 0, rng.randrange(2), 0)
        else:
            voters = [
                {
                    "voterId": number,
                    "voterDirectoryId": self._uuid(),
                    "endpoints": [{"name": "C", "host": f"host{number}", "port": 9093}],
                    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                }
                for number in rng.sample(range(5), 3)
            ]
            kind, value = KRAFT_VOTERS, voters_value(voters)[2:]
        data = control_batch(self.offset, kind, value)
        self.offset += 1
        return data

    def _transaction(self) -> bytes:
        rng = self.rng
        wrong = rng.random() < 0.1
        if self.in_transaction == wrong:
            if not wrong:
                self.in_transaction = True
                self.ends[self.offset] = "BeginTransactionRecord"
            return metadata_value("BeginTransactionRecord", name=rng.choice([None, "made up"]))
        kind = rng.choice(["EndTransactionRecord", "AbortTransactionRecord"])
        if not wrong:
            self.in_transaction = False
            self.ends[self.offset] = kind
        return metadata_value(kind)

    def _uuid(self) -> str:
        return uuid_text(self.rng.randbytes(16))

    def _nodes(self) -> list[int]:
        return self.rng.sample(range(1, 6), self.rng.randint(1, 3))

    # --- records

    def _change(self) -> Iterator[bytes]:
        changes = [
            self._topic, self._topic, self._partition, self._partition_change,
            self._partition_change, self._partition_change, self._config, self._config,
            self._broker, self._broker_change, self._broker_change, self._fence, self._controller,
            self._feature, self._acl, self._remove_acl, self._quota, self._quota,
            self._token, self._producer_ids, self._clear_elr, self._nothing,
        ]  # fmt: skip
        yield from self.rng.choice(changes)()

    def _topic(self) -> Iterator[bytes]:
        # Of an aborted transaction no topic stays, which later records are about.
        name = f"topic{self.rng.randrange(12)}"
        if self.in_transaction or name in self.topics:
            return
        topic_id = self.topics[name] = self._uuid()
        self.partitions[topic_id] = set()
        yield metadata_value("TopicRecord", name=name, topicId=topic_id)
        for number in range(self.rng.randint(1, 3)):
            yield self._partition_record(topic_id, number)

    def _partition(self) -> Iterator[bytes]:
        if self.topics and not self.in_transaction:
            topic_id = self.rng.choice(list(self.topics.values()))
            yield self._partition_record(topic_id, len(self.partitions[topic_id]))

    def _partition_record(self, topic_id: str, number: int) -> bytes:
        rng = self.rng
        nodes, version = self._nodes(), rng.randint(0, 2)
        directories = [self._uuid() for _ in nodes] if rng.random() < 0.7 else []
        wrong = rng.random() < 0.05
        if not wrong:
            self.partitions[topic_id].add(number)
        return metadata_value(
            "PartitionRecord",
            version,
            topicId=topic_id,
            partitionId=number,
            replicas=nodes,
            isr=nodes[: rng.randint(0, 3)],
            removingReplicas=nodes[:1] if rng.random() < 0.2 else [],
            addingReplicas=nodes[-1:] if rng.random() < 0.2 else [],
            leader=rng.choice([-1, nodes[0]]),
            leaderRecoveryState=7 if wrong else rng.choice([0, 0, 1]),
            leaderEpoch=rng.randrange(9),
            partitionEpoch=rng.randrange(9),
            directories=directories,
            eligibleLeaderReplicas=rng.choice([None, [], nodes]),
            lastKnownElr=rng.choice([None, [], nodes]),
        )

    def _partition_change(self) -> Iterator[bytes]:
        rng = self.rng
        if not self.topics:
            return
        topic_id = rng.choice(list(self.topics.values()))
        number = rng.choice([*self.partitions[topic_id], 99])
        nodes = self._nodes()
        ids = [self._uuid() for _ in nodes]

        def maybe(value: Any) -> Any:
            return value if rng.random() < 0.4 else None

        yield metadata_value(
            "PartitionChangeRecord",
            rng.randint(0, 2),
            topicId=topic_id,
            partitionId=number,
            isr=maybe(nodes),
            leader=rng.choice([-2, -2, -1, nodes[0]]),
            replicas=maybe(nodes),
            removingReplicas=maybe(nodes[:1]),
            addingReplicas=maybe([]),
            leaderRecoveryState=rng.choice([-1, -1, 0, 1, 5]),
            directories=maybe(
                rng.choice([ids, ids, ids[:1], [], len(ids) * [uuid_text(bytes(16))]])
            ),
            eligibleLeaderReplicas=maybe(nodes),
            lastKnownElr=maybe([]),
        )

    def _remove_topic(self) -> bytes:
        if self.rng.random() < 0.1:
            return metadata_value("RemoveTopicRecord", topicId=self._uuid())
        name = self.rng.choice(list(self.topics))
        topic_id = self.topics.pop(name)
        return metadata_value("RemoveTopicRecord", topicId=topic_id)

    def _clear_elr(self) -> Iterator[bytes]:
        name = self.rng.choice(["", "no topic", *self.topics])
        yield metadata_value("ClearElrRecord", topicName=name)

    def _config(self) -> Iterator[bytes]:
        rng = self.rng
        kind, names = rng.choice(
            [(2, list(self.topics) or ["t"]), (4, ["", "1"]), (16, ["metrics"]), (32, ["group"])]
        )
        value = rng.choice([None, "", "é, ünd = more\n", str(rng.randrange(99))])
        yield metadata_value(
            "ConfigRecord",
            resourceType=kind,
            resourceName=rng.choice(names),
            name=rng.choice(_SETTINGS),
            value=value,
        )

    def _broker(self) -> Iterator[bytes]:
        rng = self.rng
        broker, epoch = rng.randint(1, 5), rng.randrange(1000)
        if rng.random() < 0.2:
            if not self.in_transaction:
                self.brokers.pop(broker, None)
            yield metadata_value("UnregisterBrokerRecord", brokerId=broker, brokerEpoch=epoch)
            return
        if not self.in_transaction:
            self.brokers[broker] = epoch
        yield metadata_value(
            "RegisterBrokerRecord",
            rng.randint(0, 4),
            brokerId=broker,
            brokerEpoch=epoch,
            incarnationId=self._uuid(),
            isMigratingZkBroker=rng.random() < 0.1,
            endPoints=self._endpoints(),
            features=self._features(),
            rack=rng.choice([None, "", "rack a"]),
            fenced=rng.random() < 0.5,
            inControlledShutdown=rng.random() < 0.2,
            logDirs=[self._uuid() for _ in range(rng.randrange(3))],
            cordonedLogDirs=rng.choice([None, [], [self._uuid()]]),
        )

    def _endpoints(self) -> list[dict[str, Any]]:
        names = self.rng.sample(["PLAINTEXT", "SSL", "OTHER"], self.rng.randint(1, 3))
        return [
            {"name": name, "host": "h\u00e9", "port": 65535 - at, "securityProtocol": at % 4}
            for at, name in enumerate(names)
        ]

    def _features(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "minSupportedVersion": 0, "maxSupportedVersion": 3}
            for name in self.rng.sample(_FEATURES, 2)
        ]

    def _broker_change(self) -> Iterator[bytes]:
        rng = self.rng
        broker = rng.randint(1, 5)
        yield metadata_value(
            "BrokerRegistrationChangeRecord",
            rng.randint(0, 3),
            brokerId=broker,
            brokerEpoch=self.brokers.get(broker, 5),
            fenced=rng.choice([-1, 0, 1, 1, 3]),
            inControlledShutdown=rng.choice([0, 1, 1, 2]),
            logDirs=[self._uuid() for _ in range(rng.randrange(3))],
            cordonedLogDirs=rng.choice([None, [], [self._uuid()]]),
        )

    def _fence(self) -> Iterator[bytes]:
        broker = self.rng.randint(1, 5)
        kind = self.rng.choice(["FenceBrokerRecord", "UnfenceBrokerRecord"])
        yield metadata_value(kind, id=broker, epoch=self.brokers.get(broker, 5))

    def _controller(self) -> Iterator[bytes]:
        yield metadata_value(
            "RegisterControllerRecord",
            controllerId=self.rng.randint(1, 3),
            incarnationId=self._uuid(),
            zkMigrationReady=self.rng.random() < 0.5,
            endPoints=self._endpoints(),
            features=self._features(),
        )

    def _feature(self) -> Iterator[bytes]:
        name = self.rng.choice([*_FEATURES, "metadata.version"])
        level = self.rng.randint(7, 30) if name == "metadata.version" else self.rng.randrange(3)
        yield metadata_value("FeatureLevelRecord", name=name, featureLevel=level)

    def _acl(self) -> Iterator[bytes]:
        rng = self.rng
        acl_id = self._uuid()
        if not self.in_transaction:
            self.acls.append(acl_id)
        yield metadata_value(
            "AccessControlEntryRecord",
            id=acl_id,
            resourceType=rng.randint(2, 7),
            resourceName=rng.choice(["*", "name", "kafka-cluster"]),
            patternType=rng.choice([3, 4]),
            principal=rng.choice(["User:alice", "User:*"]),
            host=rng.choice(["*", "10.0.0.1"]),
            operation=rng.randint(2, 15),
            permissionType=rng.choice([2, 3]),
        )

    def _remove_acl(self) -> Iterator[bytes]:
        if self.acls and not self.in_transaction and self.rng.random() < 0.8:
            yield metadata_value("RemoveAccessControlEntryRecord", id=self.acls.pop())
        else:
            yield metadata_value("RemoveAccessControlEntryRecord", id=self._uuid())

    def _quota(self) -> Iterator[bytes]:
        rng = self.rng
        kinds = rng.choice([["user"], ["client-id"], ["ip"], ["user", "client-id"]])
        yield metadata_value(
            "ClientQuotaRecord",
            entity=[
                {"entityType": kind, "entityName": rng.choice([None, "a", "b c"])} for kind in kinds
            ],
            key=rng.choice(["producer_byte_rate", "consumer_byte_rate"]),
            value=rng.randrange(10**6) / 4,
            remove=rng.random() < 0.3,
        )

    def _scram(self) -> bytes:
        rng = self.rng
        who = {"name": rng.choice(["alice", "bob"]), "mechanism": rng.choice([1, 2])}
        if rng.random() < 0.3:
            return metadata_value("RemoveUserScramCredentialRecord", **who)
        return metadata_value(
            "UserScramCredentialRecord",
            salt=b"salt",
            storedKey=b"stored",
            serverKey=b"server",
            iterations=rng.randint(4096, 9999),
            **who,
        )

    def _token(self) -> Iterator[bytes]:
        rng = self.rng
        token_id = f"token{rng.randrange(4)}"
        if rng.random() < 0.3:
            yield metadata_value("RemoveDelegationTokenRecord", tokenId=token_id)
            return
        yield metadata_value(
            "DelegationTokenRecord",
            owner="User:alice",
            requester="User:bob",
            renewers=rng.choice([[], ["User:carol"]]),
            issueTimestamp=rng.randrange(10**12),
            maxTimestamp=rng.randrange(10**12),
            expirationTimestamp=rng.randrange(10**12),
            tokenId=token_id,
        )

    def _producer_ids(self) -> Iterator[bytes]:
        yield metadata_value("ProducerIdsRecord", brokerId=1, nextProducerId=self.rng.randrange(99))

    def _nothing(self) -> Iterator[bytes]:
        yield metadata_value("NoOpRecord")
        yield metadata_value("ZkMigrationStateRecord", zkMigrationState=self.rng.randrange(4))

    def _undecodable(self) -> bytes:
        whole = metadata_value("TopicRecord", name="cut", topicId=self._uuid())
        return self.rng.choice([b"\1\x63\0", b"\1\2\x09body", b"\2\2\0body", whole[:-3], b"\1"])
