"""The records of ``__cluster_metadata-0`` and its snapshots.

Spec: ``MetadataRecordSerde`` for the frame; the tables of ``MetadataRecordType`` in Kafka 2.8 to
4.4. Fields that were renamed without a change of bytes have their newest name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kdump.format.messages.reader import (
    Message,
    MessageCursor,
    Value,
    decode,
    decode_layout,
    parse_tables,
)
from kdump.values import frozen

_FRAME_VERSION: Final = 1
_TABLES: Final = """
= Endpoint
  name string 0+
  host string 0+
  port uint16 0+
  securityProtocol int16 0+

= CredentialInfo
  mechanism int8 0+
  salt bytes 0+
  saltedPassword bytes 0+
  iterations int32 0+

= Feature
  name string 0+
  minSupportedVersion int16 0+
  maxSupportedVersion int16 0+

@ RegisterBrokerRecord | 0 | 0-4 | 0+
  brokerId int32 0+
  isMigratingZkBroker bool 2+ def=false
  incarnationId uuid 0+
  brokerEpoch int64 0+
  endPoints []Endpoint 0+
  features []Feature 0+
  rack string 0+ null=0+
  fenced bool 0+ def=true
  inControlledShutdown bool 1+ def=false
  logDirs []uuid 3+ tag=0/3+
  cordonedLogDirs []uuid 4+ null=4+ tag=1/4+ def=null

~ RegisterBrokerRecord | 2.8 | 0 | -
  without isMigratingZkBroker fenced inControlledShutdown logDirs cordonedLogDirs

@ UnregisterBrokerRecord | 1 | 0 | 0+
  brokerId int32 0+
  brokerEpoch int64 0+

~ UnregisterBrokerRecord | 2.8 | 0 | -

@ TopicRecord | 2 | 0 | 0+
  name string 0+
  topicId uuid 0+

~ TopicRecord | 2.8 | 0 | -

@ PartitionRecord | 3 | 0-2 | 0+
  partitionId int32 0+ def=-1
  topicId uuid 0+
  replicas []int32 0+
  isr []int32 0+
  removingReplicas []int32 0+
  addingReplicas []int32 0+
  leader int32 0+ def=-1
  leaderRecoveryState int8 0+ tag=0/0+ def=0
  leaderEpoch int32 0+ def=-1
  partitionEpoch int32 0+ def=-1
  directories []uuid 1+
  eligibleLeaderReplicas []int32 2+ null=2+ tag=1/2+ def=null
  lastKnownElr []int32 2+ null=2+ tag=2/2+ def=null

~ PartitionRecord | 2.8 | 0 | -
  partitionId int32 0+
  topicId uuid 0+
  replicas []int32 0+
  isr []int32 0+
  removingReplicas []int32 0+ null=0+
  addingReplicas []int32 0+ null=0+
  leader int32 0+
  leaderEpoch int32 0+
  partitionEpoch int32 0+

@ ConfigRecord | 4 | 0 | 0+
  resourceType int8 0+
  resourceName string 0+
  name string 0+
  value string 0+ null=0+

~ ConfigRecord | 2.8 | 0 | -
  resourceType int8 0+
  resourceName string 0+
  name string 0+
  value string 0+

@ PartitionChangeRecord | 5 | 0-2 | 0+
  partitionId int32 0+ def=-1
  topicId uuid 0+
  isr []int32 0+ null=0+ tag=0/0+ def=null
  leader int32 0+ tag=1/0+ def=-2
  replicas []int32 0+ null=0+ tag=2/0+ def=null
  removingReplicas []int32 0+ null=0+ tag=3/0+ def=null
  addingReplicas []int32 0+ null=0+ tag=4/0+ def=null
  leaderRecoveryState int8 0+ tag=5/0+ def=-1
  directories []uuid 1+ null=1+ tag=8/1+ def=null
  eligibleLeaderReplicas []int32 2+ null=2+ tag=6/2+ def=null
  lastKnownElr []int32 2+ null=2+ tag=7/2+ def=null

@ AccessControlRecord | 6 | 0 | 0+
  resourceType int8 0+
  resourceName string 0+ null=0+
  patternType int8 0+
  principal string 0+
  host string 0+
  operation int8 0+
  permissionType int8 0+

@ FenceBrokerRecord | 7 | 0 | 0+
  id int32 0+
  epoch int64 0+

~ FenceBrokerRecord | 2.8 | 0 | -

@ UnfenceBrokerRecord | 8 | 0 | 0+
  id int32 0+
  epoch int64 0+

~ UnfenceBrokerRecord | 2.8 | 0 | -

@ RemoveTopicRecord | 9 | 0 | 0+
  topicId uuid 0+

~ RemoveTopicRecord | 2.8 | 0 | -

@ DelegationTokenRecord | 10 | 0 | 0+
  owner string 0+
  requester string 0+
  renewers []string 0+
  issueTimestamp int64 0+
  maxTimestamp int64 0+
  expirationTimestamp int64 0+
  tokenId string 0+

~ DelegationTokenRecord | 3.0-3.5 | 0 | 0+
  without requester

~ DelegationTokenRecord | 2.8 | 0 | -
  without requester

@ UserScramCredentialRecord | 11 | 0 | 0+
  name string 0+
  mechanism int8 0+
  salt bytes 0+
  storedKey bytes 0+
  serverKey bytes 0+
  iterations int32 0+

~ UserScramCredentialRecord | 3.0-3.4 | 0 | 0+
  name string 0+
  credentialInfos []CredentialInfo 0+

~ UserScramCredentialRecord | 2.8 | 0 | -
  name string 0+
  credentialInfos []CredentialInfo 0+

@ FeatureLevelRecord | 12 | 0 | 0+
  name string 0+
  featureLevel int16 0+

~ FeatureLevelRecord | 3.0-3.2 | 0 | 0+
  name string 0+
  minFeatureLevel int16 0+
  maxFeatureLevel int16 0+

~ FeatureLevelRecord | 2.8 | 0 | -
  name string 0+
  minFeatureLevel int16 0+
  maxFeatureLevel int16 0+

@ ClientQuotaRecord | 14 | 0 | 0+
  entity []struct 0+
    entityType string 0+
    entityName string 0+ null=0+
  key string 0+
  value float64 0+
  remove bool 0+

~ QuotaRecord | 2.8 | 0 | -

@ ProducerIdsRecord | 15 | 0 | 0+
  brokerId int32 0+
  brokerEpoch int64 0+ def=-1
  nextProducerId int64 0+

@ RemoveFeatureLevelRecord | 16 | 0 | 0+
  name string 0+

@ BrokerRegistrationChangeRecord | 17 | 0-3 | 0+
  brokerId int32 0+
  brokerEpoch int64 0+
  fenced int8 0+ tag=0/0+
  inControlledShutdown int8 1+ tag=1/1+
  logDirs []uuid 2+ tag=2/2+
  cordonedLogDirs []uuid 3+ null=3+ tag=3/3+ def=null

@ AccessControlEntryRecord | 18 | 0 | 0+
  id uuid 0+
  resourceType int8 0+
  resourceName string 0+
  patternType int8 0+
  principal string 0+
  host string 0+
  operation int8 0+
  permissionType int8 0+

@ RemoveAccessControlEntryRecord | 19 | 0 | 0+
  id uuid 0+

@ NoOpRecord | 20 | 0 | 0+

@ ZkMigrationStateRecord | 21 | 0 | 0+
  zkMigrationState int8 0+

@ RemoveUserScramCredentialRecord | 22 | 0 | 0+
  name string 0+
  mechanism int8 0+

@ BeginTransactionRecord | 23 | 0 | 0+
  name string 0+ null=0+ tag=0/0+ def=null

@ EndTransactionRecord | 24 | 0 | 0+

@ AbortTransactionRecord | 25 | 0 | 0+
  reason string 0+ null=0+ tag=0/0+ def=null

@ RemoveDelegationTokenRecord | 26 | 0 | 0+
  tokenId string 0+

@ RegisterControllerRecord | 27 | 0 | 0+
  controllerId int32 0+
  incarnationId uuid 0+
  zkMigrationReady bool 0+
  endPoints []Endpoint 0+
  features []Feature 0+

@ ClearElrRecord | 28 | 0 | 0+
  topicName string 0+

@ UnregisterControllerRecord | 29 | 0 | 0+
  controllerId int32 0+
"""


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)


@cache
def _by_type() -> dict[int | None, Message]:
    return {message.type_id: message for message in messages().values()}


@frozen
class MetadataRecord:
    """The value of a data record in ``__cluster_metadata-0`` and its snapshots.

    ``message`` is None for a type without a table here, ``fields`` is None for a type or version
    without one.
    """

    type_id: int
    version: int
    message: Message | None
    fields: dict[str, Value] | None

    @property
    def name(self) -> str | None:
        """The name of the message, None for a type without a table here."""
        return None if self.message is None else self.message.name


def decode_metadata(value: bytes | memoryview, *, older: bool = False) -> MetadataRecord:
    """Read the frame of a metadata record and the message in it. Raises DecodeError.

    Only the newest layout of a version is read, as by a controller; with ``older`` also the layouts
    of older releases, and ``message`` is the one that fits.
    """
    return decode_framed("metadata record", _by_type(), value, older=older)


def decode_framed(
    label: str,
    messages_by_type: Mapping[int | None, Message],
    value: bytes | memoryview,
    *,
    older: bool,
) -> MetadataRecord:
    """Read a frame and the message in it, as ``decode_metadata`` does. Raises DecodeError.

    ``label`` is what errors call it.
    """
    cursor = MessageCursor(label, memoryview(value), 0, len(value))
    frame_version = cursor.uvarint()
    if frame_version != _FRAME_VERSION:
        raise cursor.error(f"expected frame version {_FRAME_VERSION}, found {frame_version}")
    type_id = cursor.uvarint()
    version = cursor.uvarint()
    body = cursor.take(cursor.left)
    message = messages_by_type.get(type_id)
    if message is None or version not in message.versions:
        return MetadataRecord(type_id, version, message, None)
    if not older:
        return MetadataRecord(type_id, version, message, decode(message, version, body))
    layout, fields = decode_layout(message, version, body)
    return MetadataRecord(type_id, version, layout, fields)
