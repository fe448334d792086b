"""Messages whose answer is that of the finding that leads to them.

Spec: brokers of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    assigned_replicas,
    configs,
    directory,
    file_types,
    futures,
    meta_properties,
    metadata,
    node,
    partition_files,
    topic,
)
from kdump.audit.finding_code import FindingCode
from kdump.commands.explain.broker_log.message import BrokerMessage


def _row(pattern: str, *leads: FindingCode) -> BrokerMessage:
    return BrokerMessage(pattern, leads[0].meaning, leads[0].advice, leads, quoted=True)


ROWS: Final = (
    _row(
        "Found unexpected metadata location in data directory",
        node.PARTITION_TWICE,
        node.METADATA_LOG_MISPLACED,
    ),
    _row(
        "Created log for partition {} in {}",
        assigned_replicas.REPLICA_DIRECTORY_MISSING,
        assigned_replicas.REPLICA_DIRECTORY_MISSING_ONLY,
        assigned_replicas.REPLICA_SET_ASIDE,
        assigned_replicas.REPLICA_SET_ASIDE_ONLY,
    ),
    _row("Log directory {} not found, creating it.", directory.LOG_DIRECTORY_BLANK),
    _row(
        "Stored node id {} doesn't match previous node id {} in {}",
        meta_properties.META_PROPERTIES_MISMATCH,
        meta_properties.NODE_ID_MISMATCH,
    ),
    _row("Duplicate directory ID {} found", meta_properties.META_PROPERTIES_MISMATCH),
    _row("Broker {} is already registered with directory {}", meta_properties.DIRECTORY_ID_TAKEN),
    _row(
        "java.nio.file.FileAlreadyExistsException: {}",
        node.METADATA_LOG_FILE,
        node.PARTITION_IS_FILE,
    ),
    _row("java.nio.file.DirectoryNotEmptyException: {}", futures.FUTURE_BESIDE_CURRENT),
    _row(
        "Attempting to recover abandoned future log for {} at {} and removing {}",
        futures.FUTURE_REPLACES,
        futures.FUTURE_SHORTER,
        futures.FUTURE_STARTS_LATER,
        futures.FUTURE_START_UNEXPLAINED,
    ),
    _row("Successfully recovered abandoned future log for {}", futures.FUTURE_REPLACES),
    _row(
        "java.io.FileNotFoundException: {} (Is a directory)",
        file_types.FILE_IS_DIRECTORY,
        file_types.INDEX_IS_DIRECTORY,
    ),
    _row("java.io.IOException: Is a directory", file_types.FILE_IS_DIRECTORY),
    _row("java.nio.file.FileSystemException: {}: Is a directory", file_types.SNAPSHOT_IS_DIRECTORY),
    _row(
        "Topic ID in memory: {} does not match the topic ID for partition {} provided in the "
        "request: {}",
        topic.TOPIC_ID_MISMATCH,
    ),
    _row(
        "Invalid value {} for configuration log.segment.bytes: Value must be at least 1048576",
        configs.SETTING_REFUSED,
    ),
    _row("Configuration 'log.dirs' values must not be empty.", configs.SETTING_REFUSED),
    _row("Failed to load producer snapshot from '{}'", partition_files.SNAPSHOT_UNREADABLE),
    _row(
        "Tried to apply FeatureLevelRecord {}, but this controller only supports versions {}",
        metadata.FEATURE_UNSUPPORTED,
    ),
    _row("No MetadataVersion with feature level {}", metadata.FEATURE_UNSUPPORTED),
    _row(
        "Unsupported metadata version - if you are currently upgrading your cluster",
        metadata.FEATURE_UNSUPPORTED,
    ),
)
