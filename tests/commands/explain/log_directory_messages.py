"""Which messages in Kafka's classes concern a log directory: by class and method, not by answer.

A message concerns a log directory if what its files hold, or what the system does with them, leads
to it: what is read at a start, by recovery, by appends, fetches, cleaning and retention, by
coordinators and by controllers. Checks of arguments and of builders, of configurations and of
requests do not, nor do states of elections, nor what a client sends.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from commands.explain.class_messages import ClassMessage, read_messages

RELEASES = ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1", "4.3.1", "4.4.0")

#: The classes that are read for messages.
CLASSES = re.compile(
    r"kafka\.(log|server|raft|cluster|coordinator|message|common|utils|metadata|snapshot|consumer)\."
    r"|kafka\.Kafka\b|org\.apache\.kafka\.(storage|server|raft|snapshot|metadata|image|controller|"
    r"coordinator|common\.record|common\.utils|common\.protocol\.Errors|timeline)\b"
    r"|org\.apache\.kafka\.clients\.consumer\.internals\."
)

#: Classes of which every message concerns a log directory, but for what is below.
_FILES = (
    # Logs, segments, indexes, snapshots of producers, leader epochs.
    r"Log|LogManager|LogSegments?|LogLoader|LocalLog|UnifiedLog|FileLock|"
    r"(Abstract|Offset|Time|Transaction|Lazy)Index|ProducerStateManager|LeaderEpoch\w+|"
    r"LogCleaner|Cleaner|CleanerThread|LogCleanerManager|SkimpyOffsetMap|RemoteIndexCache|"
    # Checkpoints and small files.
    r"OffsetCheckpoint\w*|LazyOffsetCheckpoints|CheckpointFile\w*|CheckpointReadBuffer|"
    r"PartitionMetadata\w*|BrokerMetadataCheckpoint|(Raw)?MetaProperties\w*|LogDirFailureChannel|"
    # The metadata log and its snapshots.
    r"KafkaMetadataLog|KafkaRaftLog|ReplicatedLog|RaftLog|FileBasedStateStore|FileQuorumStateStore|"
    r"FileRawSnapshot\w+|RecordsSnapshotReader|RecordsBatchReader|Snapshots|SnapshotGenerator|"
    r"SnapshotEmitter|BootstrapDirectory|BootstrapMetadata|BatchFileReader"
)
#: Methods that read batches, of the broker's and of clients.
_BATCHES = (
    r"(FileMessageSet|FileRecords|FileLogInputStream|ByteBufferLogInputStream|RecordsIterator|"
    r"RecordBatchIterator|ByteBufferMessageSet|AbstractLegacyRecordBatch|LegacyRecord|Record|Message|"
    r"DefaultRecord|DefaultRecordBatch|ControlRecordType|EndTransactionMarker|CompressionCodec|"
    r"KafkaLZ4BlockInputStream|ControlRecordUtils|MetadataParser|MetadataRecordSerde|"
    r"AbstractApiMessageSerde)\.\S+"
)
#: Methods of classes that do other things too.
_METHODS = (
    r"ReplicaManager\.(checkpointHighWatermarks|handleLogDirFailure\w*|alterReplicaLogDirs|"
    r"describeLogDirs|appendToLocalLog|read\w*|kafka|deleteRecordsOnLocalLog|makeLeaders|"
    r"makeFollowers|stopReplicas?|applyLocal\w+|getLog\w*|lastOffsetForLeaderEpoch|"
    r"getReplicaOrException|processFetch\w*|maybeAddLogDirFetchers|getPartitionOr\w+)|"
    r"AbstractFetcherThread\.(processFetchRequest|fetchOffsetAndTruncate|truncateTo\w+|"
    r"getOffsetTruncationState|doTruncate|maybeTruncate\w*|handlePartitionsWithErrors|"
    r"handleOutOfRange\w*|onPartitionFenced|processPartitionData|addPartitions\w*)|"
    r"(ReplicaFetcherThread|ReplicaAlterLogDirsThread)\.(processPartitionData|handleOffset\w+|"
    r"maybeTruncate|truncate\w*|resolve\w+|fetchEpoch\w+)|"
    r"Partition\.(delete|checkOrSetTopicId|getOrCreateReplica|createLog\w*|localLog\w*|"
    r"futureLocalLog\w*|maybeCreate\w+|topicId)|"
    r"RaftReplica\w+\.(makeLeaders|makeFollowers|handleMetadataRecords)|"
    r"KafkaServer\.(getBrokerId\w*|getOrGenerateBrokerId|startup)|KafkaRaftServer\.initializeLogDirs|"
    r"BrokerLifecycleManager\.run|KafkaApis\.(appendToLocalLog|handleLeaderAndIsrRequest)|"
    r"OffsetManager\.\S+|TransactionLog\.(read\w+|\w+Record\w*|schemaFor\w+)|"
    r"GroupMetadataManager\.(loadGroupsAndOffsets|doLoad\w*|read\w+|schemaFor\w+|kafka|onLoaded)|"
    r"TransactionStateManager\.(loadTransactionMetadata|addLoadedTransactionsToCache)|"
    r"CoordinatorLoaderImpl\.(\w*[lL]oad\w*|process\w+|toReadable\w+)|CoordinatorRecordSerde\.\S+|"
    r"CoordinatorRuntime\.(load|null|scheduleLoadOperation)|SnapshottableCoordinator\.\S+|"
    r"SharePartition\.(maybeInitialize|initialize\w*)|"
    r"QuorumState\.initialize|KafkaRaftClient\.(updateListenersProgress|handleFetchResponse|"
    r"handleFetchSnapshotResponse|truncate\w*|\w*Snapshot\w*)|"
    r"MetadataLoader\.(handle\w+|load\w+)|MetadataBatchLoader\.\w+|BrokerMetadataListener\.\S+|"
    r"QuorumController\.(replay|handleCommit|handleLoadSnapshot|handleLoadBootstrap)|SharedServer\.\S+|"
    # The records of the metadata log, and what they become part of.
    r"\w+ControlManager\.replay\w*|\w+Delta\.(replay|apply)|"
    r"ClusterDelta\.\S+|AclCache\.\S+|BrokersTo(Isrs|Elrs)\.(remove|change)|"
    r"PartitionRegistration\.<init>|(LeaderRecoveryState|ZkMigrationState)\.of|"
    r"ListenerInfo\.from\w+Record|StandardAcl\.\S+|ActivationRecordsGenerator\.recordsFor\w+|"
    # The records of the coordinators' topics.
    r"GroupMetadataManager\.replay|OffsetMetadataManager\.replay|GroupCoordinatorShard\.replay|"
    r"ShareCoordinatorShard\.replay"
)
_CONCERNED = re.compile(rf"(?:{_FILES})\.\S+|{_BATCHES}|{_METHODS}")

#: Methods that write, convert or validate what a client sends or a caller passes.
_NOT_METHODS = re.compile(
    r"\w+\.(builder\w*|writeHeader|computeAttributes|sizeOf|headerSize|keyOffset|"
    r"recordOverhead|recordKey|convertTo|validateTimestampAndMagicValue|set[A-Z]\w+|"
    r"validateReconfiguration|mark|reset|lookupUnmapMethodHandle|fetchTopicConfigOverrides|update)|"
    r"(Record|LegacyRecord|DefaultRecord|DefaultRecordBatch)\.write\w*|(MetadataParser|SnapshotEmitter|BatchFileReader|RecordsSnapshotWriter|"
    r"LogManagerBuilder)\.(size|build|close)|LogManager\.decNumRemainingLogs|"
    r"(KafkaMetadataLog|KafkaRaftLog)\.(apply|createLog|append\w+|createNewSnapshot|createSnapshot|"
    r"read)|Cleaner\.<init>|"
    r"RecordsIterator\.(ensureOpen|next|nextBatches)|RecordsSnapshotReader\.next|"
    r"RecordsBatchReader\.(ensureOpen|next|materializeIterator)|BootstrapMetadata\.copy\w*|"
    r"LogCleaner\.(<init>|startup)|KafkaLZ4BlockInputStream\.<init>|LazyIndex\.\S+|"
    r"KafkaRaftClient\.(createSnapshot|handleFetchSnapshotRequest)|CoordinatorLoaderImpl\.load|"
    r"SkimpyOffsetMap\.<init>|"
    r"MetadataLoader\.handleLeaderChange|LogManager\.startupWithConfigOverrides"
)
#: Parts of texts in methods that concern files: about callers, requests, configurations, elections,
#: connections, remote storage, and what a client sent.
_NOT_TEXTS = (
    "dir should not be null", "requestLocal should be", "must be empty during log init",
    "should have been initialized", "No filthiest log", "No uncleanable offset", "be non-negative",
    "Unexpected indexType", "Unexpected type", "Unexpected exception: ",
    "Unexpected exception thrown:", "Unexpected searchResult", "Unexpected IndexSearch",
    "Unexpected records type", "to a negative", "Tiered storage is", "RemoteLogManager is empty",
    "remote log storage is disabled", "remote storage is not enabled", "segment id=",
    "segment-id = ", "marked for cleanup", "received interruption", "eviction policy",
    "cleaner queue", "estimating remote", "entry as null", "Invalid size: ", "Invalid max size",
    "Invalid position: {}$", "maximum offset", "maximum configured", "internal topic",
    "configured policy", "min.isr", "insync", "Leader not local", "not available for partition",
    "doesn't exist on", "not found in fetchInfos", "controller epoch is old", "old controller",
    "not in assigned", "recognized to be", "leader epoch {} is", "been created", "is unavailable",
    "name is too long", "is deferred", "deferring", "deferred", "Transactional records",
    "Unable to verify", "is not valid$", "controlled shutdown", "istener", "cceptor", "uthorizer",
    "ZooKeeper client", "ZooKeeper migration", "ZK migrations", "still shutting", "still starting",
    "advertised", "JAAS", "catch up with KRaft", "address spec", "alidating messages while",
    "baseOffset of the record batch", "batch epoch correctly", "llegal length",
    "message format version for partition", "log segment range", "passed to update",
    "frequent log rolling", "cleaner threads", "be aborted", "be resumed", "should exist",
    "In-progress partition", "xpected string", "ncrement the log start", "egister broker",
    "unable to register", "publisher", "Invalid magic value", "Invalid magic used",
    "Invalid message timestamp", "Invalid timestamp", "Headers cannot", "null header key",
    "not supported for magic", "do not support partition leader", "timestamp for a record",
    "not writable", "Unmapping", "Append status", "incremental LeaderAndIsr", "loader is closed",
    "Error in fetch", "Error in response for fetch", "Error getting offset",
    "Must have at least one", "not requested in Offsets", "leader epoch request",
    "we are the active controller", "from the leader for partition", "has been downgraded",
    "interruption", "Invalid max index size", "without having a preferred",
    "in the current log directory", "requested log dir", "in the config", "Magic versions prior",
    "invalid response type", "already frozen", "Unexpected broker state", "its controller epoch",
    "Quorum state data version", "must be in loading state", "already initializing", "is fenced",
    "Unsupported record type", "Appending metadata",
)  # fmt: skip


def concerns(message: ClassMessage) -> bool:
    """Return whether ``message`` concerns a log directory."""
    return (
        _CONCERNED.fullmatch(message.where) is not None
        and _NOT_METHODS.fullmatch(message.where) is None
        and not any(part in f"{message.template}$" for part in _NOT_TEXTS)
    )


def read_jars(release: str) -> set[ClassMessage]:
    """Return the messages of the jars of ``release``, which Maven brings."""
    from brokers.jars import classpath

    directory = Path(classpath(release)).parent
    return {
        message
        for jar in sorted(directory.glob("kafka*.jar"))
        if not re.search("tools|connect|test", jar.name)
        for message in read_messages(jar, CLASSES)
    }


LIST = Path(__file__).with_name("broker_templates.tsv")


def read_list() -> dict[ClassMessage, list[str]]:
    """Return the messages that concern a log directory, with the releases that have each."""
    rows = (line.split("\t") for line in LIST.read_text().splitlines())
    return {
        ClassMessage(template, kind, where): releases.split()
        for releases, where, kind, template in rows
    }


def make_list() -> dict[ClassMessage, list[str]]:
    """Return what ``read_list`` returns, from the jars."""
    found: dict[ClassMessage, list[str]] = {}
    for release in RELEASES:
        for message in filter(concerns, read_jars(release)):
            found.setdefault(message, []).append(release)
    return found


#: What stands for values, as far as brokers log it.
VALUES = ("7", "orders-3", "/d/orders-3", "id:orders-3")
#: The packages that answers look at.
_PACKAGES = {
    "IOException": "java.io.",
    "EOFException": "java.io.",
    "UncheckedIOException": "java.io.",
}


def lines_of(message: ClassMessage) -> Iterator[str]:
    """Yield ``message`` as brokers log it, with several values in its places."""
    template = message.template.replace("[{},{}]", "[orders,3]")
    if message.kind == "FAULT":
        template = f"Encountered fatal fault: {template}"
    elif message.kind not in ("WARN", "ERROR", "FATAL"):
        template = f"{_PACKAGES.get(message.kind, 'x.')}{message.kind}: {template}"
    first, *parts = template.split("{}")
    varied = min(len(parts), 4)
    for values in product(VALUES, repeat=varied):
        filled = (*values, *("7",) * (len(parts) - varied))
        pieces = (f"{value}{part}" for value, part in zip(filled, parts, strict=True))
        yield f"{first}{''.join(pieces)} (kafka.{message.where.partition('.')[0]})"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    rows = (
        f"{' '.join(releases)}\t{message.where}\t{message.kind}\t{message.template}\n"
        for message, releases in make_list().items()
    )
    LIST.write_text("".join(sorted(rows, key=lambda row: row.split("\t")[1:])))
