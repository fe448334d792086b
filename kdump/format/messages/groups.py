"""The records of ``__consumer_offsets``: groups and their committed offsets.

Spec: the tables of ``CoordinatorRecordType`` of the group coordinator in Kafka 2.8 to 4.4; before,
``GroupMetadataManager`` had the same bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kdump.format.messages.reader import Message, parse_tables

_TABLES: Final = """
= KeyValue
  key string 0+
  value string 0+

= TopicPartitions
  topicId uuid 0+
  partitions []int32 0+

= TopicPartitionsAndEpochs
  topicId uuid 0+
  partitions []int32 0+
  assignmentEpochs []int32 0+ null=0+ tag=0/0+

= TopicPartitionsInfo
  topicId uuid 0+
  topicName string 0+
  partitions []int32 0+

= TopicMetadata
  topicId uuid 0+
  topicName string 0+
  numPartitions int32 0+
  partitionMetadata []struct 0+
    partition int32 0+
    racks []string 0+

= Assignor
  name string 0+
  minimumVersion int16 0+
  maximumVersion int16 0+
  reason int8 0+
  version int16 0+
  metadata bytes 0+

= TaskIds
  subtopologyId string 0+
  partitions []int32 0+

= TaskIdsAndEpochs
  subtopologyId string 0+
  partitions []int32 0+
  assignmentEpochs []int32 0+ null=0+ tag=0/0+

= TopicInfo
  name string 0+
  partitions int32 0+
  replicationFactor int16 0+
  topicConfigs []KeyValue 0+

@ LegacyOffsetCommitKey | 0 | 0 | -
  group string 0
  topic string 0
  partition int32 0

@ LegacyOffsetCommitValue | 0 | 0 | -
  offset int64 0
  metadata string 0
  commitTimestamp int64 0

@ OffsetCommitKey | 1 | 0 | -
  group string 0
  topic string 0
  partition int32 0

@ OffsetCommitValue | 1 | 0-4 | 4+
  offset int64 0+
  leaderEpoch int32 3+ def=-1
  metadata string 0+
  commitTimestamp int64 0+
  expireTimestamp int64 1 def=-1
  topicId uuid 4+ tag=0/4+

@ GroupMetadataKey | 2 | 0 | -
  group string 0

@ GroupMetadataValue | 2 | 0-4 | 4+
  protocolType string 0+
  generation int32 0+
  protocol string 0+ null=0+
  leader string 0+ null=0+
  currentStateTimestamp int64 2+ def=-1
  members []struct 0+
    memberId string 0+
    groupInstanceId string 3+ null=3+ def=null
    clientId string 0+
    clientHost string 0+
    rebalanceTimeout int32 1+ def=-1
    sessionTimeout int32 0+
    subscription bytes 0+
    assignment bytes 0+

@ ConsumerGroupMetadataKey | 3 | 0 | -
  groupId string 0

@ ConsumerGroupMetadataValue | 3 | 0 | 0+
  epoch int32 0+
  metadataHash int64 0+ tag=0/0+ def=0

@ ConsumerGroupPartitionMetadataKey | 4 | 0 | -
  groupId string 0

@ ConsumerGroupPartitionMetadataValue | 4 | 0 | 0+
  topics []TopicMetadata 0+

~ ConsumerGroupPartitionMetadataValue | 3.6-3.7 | 0 | 0+
  epoch int32 0+
  topics []TopicMetadata 0+

~ ConsumerGroupPartitionMetadataValue | 3.5 | 0 | 0+
  epoch int32 0+
  topics []struct 0+
    topicId uuid 0+
    numPartitions int32 0+

@ ConsumerGroupMemberMetadataKey | 5 | 0 | -
  groupId string 0
  memberId string 0

@ ConsumerGroupMemberMetadataValue | 5 | 0 | 0+
  instanceId string 0+ null=0+
  rackId string 0+ null=0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+
  subscribedTopicRegex string 0+ null=0+
  rebalanceTimeoutMs int32 0+ def=-1
  serverAssignor string 0+ null=0+
  classicMemberMetadata struct 0+ null=0+ tag=0/0+ def=null
    sessionTimeoutMs int32 0+
    supportedProtocols []struct 0+
      name string 0+
      metadata bytes 0+

~ ConsumerGroupMemberMetadataValue | 3.6-3.7 | 0 | 0+
  instanceId string 0+ null=0+
  rackId string 0+ null=0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+
  subscribedTopicRegex string 0+ null=0+
  rebalanceTimeoutMs int32 0+
  serverAssignor string 0+ null=0+
  assignors []Assignor 0+

~ ConsumerGroupMemberMetadataValue | 3.5 | 0 | 0+
  groupEpoch int32 0+
  instanceId string 0+ null=0+
  rackId string 0+ null=0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+
  subscribedTopicRegex string 0+ null=0+
  assignors []Assignor 0+

@ ConsumerGroupTargetAssignmentMetadataKey | 6 | 0 | -
  groupId string 0

@ ConsumerGroupTargetAssignmentMetadataValue | 6 | 0 | 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag=0/0+ def=0

@ ConsumerGroupTargetAssignmentMemberKey | 7 | 0 | -
  groupId string 0
  memberId string 0

@ ConsumerGroupTargetAssignmentMemberValue | 7 | 0 | 0+
  topicPartitions []TopicPartitions 0+

~ ConsumerGroupTargetAssignmentMemberValue | 3.5-3.7 | 0 | 0+
  error int8 0+
  topicPartitions []TopicPartitions 0+
  metadataVersion int16 0+
  metadataBytes bytes 0+

@ ConsumerGroupCurrentMemberAssignmentKey | 8 | 0 | -
  groupId string 0
  memberId string 0

@ ConsumerGroupCurrentMemberAssignmentValue | 8 | 0 | 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  assignedPartitions []TopicPartitionsAndEpochs 0+
  partitionsPendingRevocation []TopicPartitionsAndEpochs 0+

~ ConsumerGroupCurrentMemberAssignmentValue | 3.6-3.7 | 0 | 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  targetMemberEpoch int32 0+
  assignedPartitions []TopicPartitions 0+
  partitionsPendingRevocation []TopicPartitions 0+
  partitionsPendingAssignment []TopicPartitions 0+
  error int8 0+
  metadataVersion int16 0+
  metadataBytes bytes 0+

~ ConsumerGroupCurrentMemberAssignmentValue | 3.5 | 0 | 0+
  memberEpoch int32 0+
  error int8 0+
  topicPartitions []TopicPartitions 0+
  metadataVersion int16 0+
  metadataBytes bytes 0+

@ ShareGroupPartitionMetadataKey | 9 | 9 | -
  groupId string 9

@ ShareGroupPartitionMetadataValue | 9 | 0 | 0+
  topics []TopicMetadata 0+

~ ShareGroupPartitionMetadataValue | 3.9 | 0 | 0+
  initializedTopics []TopicPartitionsInfo 0+
  deletingTopics []struct 0+
    topicId uuid 0+
    topicName string 0+

@ ShareGroupMemberMetadataKey | 10 | 0 | -
  groupId string 0
  memberId string 0

@ ShareGroupMemberMetadataValue | 10 | 0 | 0+
  rackId string 0+ null=0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+

@ ShareGroupMetadataKey | 11 | 0 | -
  groupId string 0

@ ShareGroupMetadataValue | 11 | 0 | 0+
  epoch int32 0+
  metadataHash int64 0+

~ ShareGroupMetadataValue | 3.9-4.0 | 0 | 0+
  epoch int32 0+

@ ShareGroupTargetAssignmentMetadataKey | 12 | 0 | -
  groupId string 0

@ ShareGroupTargetAssignmentMetadataValue | 12 | 0 | 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag=0/0+ def=0

@ ShareGroupTargetAssignmentMemberKey | 13 | 0 | -
  groupId string 0
  memberId string 0

@ ShareGroupTargetAssignmentMemberValue | 13 | 0 | 0+
  topicPartitions []TopicPartitions 0+

@ ShareGroupCurrentMemberAssignmentKey | 14 | 0 | -
  groupId string 0
  memberId string 0

@ ShareGroupCurrentMemberAssignmentValue | 14 | 0 | 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  assignedPartitions []TopicPartitions 0+

@ ShareGroupStatePartitionMetadataKey | 15 | 0 | -
  groupId string 0

@ ShareGroupStatePartitionMetadataValue | 15 | 0 | 0+
  initializingTopics []TopicPartitionsInfo 0+
  initializedTopics []TopicPartitionsInfo 0+
  deletingTopics []struct 0+
    topicId uuid 0+
    topicName string 0+

~ ShareGroupStatePartitionMetadataValue | 4.0 | 0 | 0+
  without initializingTopics

@ ConsumerGroupRegularExpressionKey | 16 | 0 | -
  groupId string 0
  regularExpression string 0

@ ConsumerGroupRegularExpressionValue | 16 | 0 | 0+
  topics []string 0+
  version int64 0+
  timestamp int64 0+

@ StreamsGroupMetadataKey | 17 | 0 | -
  groupId string 0

@ StreamsGroupMetadataValue | 17 | 0 | 0+
  epoch int32 0+
  metadataHash int64 0+
  validatedTopologyEpoch int32 0+ tag=0/0+ def=-1
  lastAssignmentConfigs []KeyValue 0+ null=0+ tag=1/0+
  storedDescriptionTopologyEpoch int32 0+ tag=2/0+ def=-1
  failedDescriptionTopologyEpoch int32 0+ tag=3/0+ def=-1

@ StreamsGroupMemberMetadataKey | 19 | 0 | -
  groupId string 0
  memberId string 0

@ StreamsGroupMemberMetadataValue | 19 | 0 | 0+
  instanceId string 0+ null=0+
  rackId string 0+ null=0+
  clientId string 0+
  clientHost string 0+
  rebalanceTimeoutMs int32 0+ def=-1
  topologyEpoch int32 0+
  processId string 0+
  userEndpoint struct 0+ null=0+ def=null
    host string 0+
    port uint16 0+
  clientTags []KeyValue 0+

@ StreamsGroupTargetAssignmentMetadataKey | 20 | 0 | -
  groupId string 0

@ StreamsGroupTargetAssignmentMetadataValue | 20 | 0 | 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag=0/0+ def=0

@ StreamsGroupTargetAssignmentMemberKey | 21 | 0 | -
  groupId string 0
  memberId string 0

@ StreamsGroupTargetAssignmentMemberValue | 21 | 0 | 0+
  activeTasks []TaskIds 0+
  standbyTasks []TaskIds 0+
  warmupTasks []TaskIds 0+

@ StreamsGroupCurrentMemberAssignmentKey | 22 | 0 | -
  groupId string 0
  memberId string 0

@ StreamsGroupCurrentMemberAssignmentValue | 22 | 0 | 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  activeTasks []TaskIdsAndEpochs 0+
  standbyTasks []TaskIdsAndEpochs 0+
  warmupTasks []TaskIdsAndEpochs 0+
  activeTasksPendingRevocation []TaskIdsAndEpochs 0+
  standbyTasksPendingRevocation []TaskIdsAndEpochs 0+
  warmupTasksPendingRevocation []TaskIdsAndEpochs 0+

@ StreamsGroupTopologyKey | 23 | 0 | -
  groupId string 0

@ StreamsGroupTopologyValue | 23 | 0 | 0+
  epoch int32 0+
  subtopologies []struct 0+
    subtopologyId string 0+
    sourceTopics []string 0+
    sourceTopicRegex []string 0+
    stateChangelogTopics []TopicInfo 0+
    repartitionSinkTopics []string 0+
    repartitionSourceTopics []TopicInfo 0+
    copartitionGroups []struct 0+
      sourceTopics []int16 0+
      sourceTopicRegex []int16 0+
      repartitionSourceTopics []int16 0+
"""


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)
