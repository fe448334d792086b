"""The topic settings that apply: metadata log, cleaner checkpoint, ``server.properties``, defaults.

Spec: ``LogConfig``, ``ServerTopicConfigSynonyms``, ``KafkaConfig``: a topic's own setting overrides
the node's dynamic one, which overrides that of all brokers, which overrides that of the file.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.facts.cluster import ALL_BROKERS, ClusterImage, Configs
from kdump.audit.facts.compaction import NEVER, CompactionConfigs
from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.facts.small_files import DEFAULT_RETENTION_MS, TopicSettings
from kdump.errors import SourceError, UsageError
from kdump.format.properties import parse_properties
from kdump.storage.access import open_source
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.values import frozen

_CONFIG_BYTES: Final = 1 << 20
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_MAX_INT: Final = 2**31 - 1
_DEFAULTS: Final = TopicSettings()
_DEFAULT_POLICY: Final = frozenset({"delete"})
#: The value of a local limit of retention that stands for the other limit.
_AS_ABOVE: Final = -2
_DEFAULT_TRANSACTION_MS: Final = 900_000
_DEFAULT_RATIO: Final = 0.5
_CORDONED: Final = "cordoned.log.dirs"
_DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
#: That of 4.0 and later (KIP-1030); before, it is 1.
_DEFAULT_RECOVERY_THREADS: Final = 2

#: The broker settings for a topic setting, in order of precedence, with the factor of their units.
_SYNONYMS: Final = {
    "cleanup.policy": {"log.cleanup.policy": 1},
    "index.interval.bytes": {"log.index.interval.bytes": 1},
    "segment.index.bytes": {"log.index.size.max.bytes": 1},
    "retention.ms": {
        "log.retention.ms": 1,
        "log.retention.minutes": 60_000,
        "log.retention.hours": 3_600_000,
    },
    "retention.bytes": {"log.retention.bytes": 1},
    "local.retention.ms": {"log.local.retention.ms": 1},
    "local.retention.bytes": {"log.local.retention.bytes": 1},
    "log.cleaner.enable": {"log.cleaner.enable": 1},
    "min.cleanable.dirty.ratio": {"log.cleaner.min.cleanable.ratio": 1},
    "min.compaction.lag.ms": {"log.cleaner.min.compaction.lag.ms": 1},
    "max.compaction.lag.ms": {"log.cleaner.max.compaction.lag.ms": 1},
    "delete.retention.ms": {"log.cleaner.delete.retention.ms": 1},
    "min.insync.replicas": {"min.insync.replicas": 1},
}


@frozen
class Sources:
    """The sources of settings: the image of the cluster, and the pairs of ``server.properties``.

    Each is None if it is missing. ``node_id`` selects the node's dynamic configs.
    """

    image: ClusterImage | None = None
    config: Configs | None = None
    node_id: int | None = None

    def has_own(self, topic: str) -> bool:
        """Return whether they certainly have the topic's own settings, or that it has none."""
        image = self.image
        return image is not None and image.complete and topic in image.topics

    def find(self, topic: str, name: str) -> tuple[str, int] | None:
        """Return the text of a topic's setting and the factor of its unit; None if not set."""
        by_rank: list[Configs] = []
        if self.image is not None:
            topic_configs = self.image.topic_configs.get(topic, {})
            if name in topic_configs:
                return topic_configs[name], 1
            brokers = self.image.broker_configs
            by_rank = [brokers.get(key, {}) for key in (str(self.node_id), ALL_BROKERS)]
        for configs in (*by_rank, self.config or {}):
            for synonym, factor in _SYNONYMS.get(name, {}).items():
                if synonym in configs:
                    return configs[synonym], factor
        return None

    def number(self, topic: str, name: str) -> int | None:
        """Return a topic's setting as a number, None if it is not set or not a number."""
        found = self.find(topic, name)
        if found is None or not _NUMBER.fullmatch(found[0].strip()):
            return None
        return int(found[0]) * found[1]


@frozen
class Overrides:
    """Settings of a topic that override those in files; None for no override."""

    index_interval_bytes: int | None = None
    segment_index_bytes: int | None = None
    compacted: bool | None = None

    def over(self, found: TopicSettings) -> TopicSettings:
        """Return the settings ``found``, overridden by these."""
        interval, room = self.index_interval_bytes, self.segment_index_bytes
        if interval is None and room is None and self.compacted is None:
            return found
        return replace(
            found,
            index_interval_bytes=found.index_interval_bytes if interval is None else interval,
            segment_index_bytes=found.segment_index_bytes if room is None else room,
            compacted=found.compacted if self.compacted is None else self.compacted,
        )


def read_config(path: Path) -> Configs:
    """Read ``server.properties``. Raises SourceError, DecodeError."""
    with open_source(path, mapped=False) as source:
        if source.size > _CONFIG_BYTES:
            raise SourceError(
                path, f"{path}: expected at most {_CONFIG_BYTES} bytes, found {source.size}"
            )
        return parse_properties(bytes(source.window(0, source.size)[: source.size]))


def log_directories(config: Configs) -> tuple[Path, ...]:
    """Return the log directories that ``config`` names, including that of the metadata log.

    Raises UsageError for text that is not a path.
    """
    names = [*_log_dirs(config), config.get("metadata.log.dir", "").strip()]
    return tuple(dict.fromkeys(_path(name) for name in names if name))


def named_directories(config: Configs) -> tuple[Path, ...]:
    """Return the log directories of ``config`` as a broker lists them, repeats included.

    The first is the one of the metadata log, if no other is named for it. Raises UsageError for
    text that is not a path.
    """
    return tuple(_path(name) for name in _log_dirs(config))


def metadata_directory(config: Configs) -> Path | None:
    """Return the log directory that ``config`` names for the metadata log.

    Raises UsageError for text that is not a path.
    """
    name = config.get("metadata.log.dir", "").strip()
    return _path(name) if name else next(iter(named_directories(config)), None)


def voter_ids(config: Configs) -> frozenset[int]:
    """Return the node ids in ``controller.quorum.voters``, which is ID@HOST:PORT with commas."""
    parts = config.get("controller.quorum.voters", "").split(",")
    ids = (part.partition("@")[0].strip() for part in parts)
    return frozenset(int(text[:10]) for text in ids if text.isascii() and text.isdecimal())


def data_directories(config: Configs) -> int:
    """Return the number of a broker's log directories for topics: without any of them it exits."""
    return len(set(_log_dirs(config)))


def _log_dirs(config: Configs) -> list[str]:
    listed = config.get("log.dirs") or config.get("log.dir") or "/tmp/kafka-logs"
    return [name.strip() for name in listed.split(",") if name.strip()]


def _path(name: str) -> Path:
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise UsageError(f"expected paths of log directories in the configuration, found {name!r}")
    return Path(name)


def longest_transaction_ms(config: Configs | None) -> int | None:
    """Return the longest transaction timeout that brokers allow in ms, None if it is unknown.

    It is not in the metadata log: brokers do not accept it as a dynamic config.
    """
    if config is None:
        return None
    text = config.get("transaction.max.timeout.ms", str(_DEFAULT_TRANSACTION_MS)).strip()
    return int(text) if _NUMBER.fullmatch(text) and 0 < int(text) <= _MAX_INT else None


def recovery_threads(config: Configs | None) -> int:
    """Return the number of threads that recover the logs of each log directory.

    A start does not yet know the dynamic configs. Without the setting it is the default of 4.0.
    """
    text = (config or {}).get("num.recovery.threads.per.data.dir", "").strip()
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if 0 < number <= _MAX_INT else _DEFAULT_RECOVERY_THREADS


#: The topics of coordinators, which are compacted whatever their settings are.
_COMPACTED: Final = frozenset({"__consumer_offsets", "__transaction_state"})


def topic_settings(topic: str, sources: Sources, *, cleaned: bool) -> TopicSettings:
    """Return the settings of ``topic``.

    ``cleaned`` says that the cleaner's checkpoint has a line of the partition: a log that was
    compacted once keeps its gaps, whatever its policy is now.
    """
    image = sources.image
    topic_id = None if image is None else image.topics.get(topic)
    # A topic without its own setting has the broker's default, which is rarely changed. The
    # configuration file lacks the settings of topics: it does not prove that one is not compacted.
    topic_known = sources.has_own(topic)
    policies = _policies(sources, topic)
    retention = sources.number(topic, "retention.ms")
    retention_bytes = sources.number(topic, "retention.bytes")
    if policies and "delete" not in policies:
        retention = retention_bytes = -1
    elif cleaned and not topic_known:
        retention = retention_bytes = None
    elif retention is None and sources.config is not None:
        retention = DEFAULT_RETENTION_MS
    if retention_bytes is None and (topic_known or (sources.config is not None and not cleaned)):
        retention_bytes = -1
    compacted: bool | None = cleaned or "compact" in policies or topic in _COMPACTED
    # Brokers only delete the segments of the metadata log.
    if not compacted and not topic_known and topic != CLUSTER_METADATA_TOPIC:
        compacted = None
    return TopicSettings(
        compacted=compacted,
        index_interval_bytes=_int(
            sources.number(topic, "index.interval.bytes"), 0, _DEFAULTS.index_interval_bytes
        ),
        segment_index_bytes=_int(
            sources.number(topic, "segment.index.bytes"), 4, _DEFAULTS.segment_index_bytes
        ),
        retention_ms=None if retention is None else max(retention, -1),
        retention_bytes=None if retention_bytes is None else max(retention_bytes, -1),
        origin=_origin(topic_id, sources, cleaned=cleaned),
        remote_storage=(_flag(sources, topic, "remote.storage.enable") if topic_known else None),
    )


def retention_configs(topic: str, sources: Sources) -> RetentionConfigs | None:
    """Return the configs of ``topic`` that decide over retention; None if they are unknown.

    ``server.properties`` does not have the topic's own, so that only a whole metadata log tells
    them. What neither sets has Kafka's default.
    """
    if not sources.has_own(topic):
        return RetentionConfigs(False, True, -1, -1) if topic in _COMPACTED else None
    policies = _policies(sources, topic) or _DEFAULT_POLICY
    remote = _flag(sources, topic, "remote.storage.enable")
    copied = remote and not _flag(sources, topic, "remote.log.copy.disable")
    limits = []
    unseen = sources.config is None
    for name, default in (("retention.ms", DEFAULT_RETENTION_MS), ("retention.bytes", -1)):
        limit = sources.number(topic, name)
        own = sources.number(topic, f"local.{name}") if copied else None
        limit = default if limit is None else limit
        limits.append(limit if own is None or own == _AS_ABOVE else own)
    return RetentionConfigs(
        # Without a policy, 4.1 and later delete what is copied (UnifiedLog.deleteOldSegments).
        delete="delete" in policies or (copied and "compact" not in policies),
        compact="compact" in policies,
        retention_ms=max(limits[0], -1),
        retention_bytes=max(limits[1], -1),
        remote=copied,
        cleaner=_has_cleaner(topic, sources),
        policy_guessed=unseen and sources.find(topic, "cleanup.policy") is None,
        limits_guessed=unseen
        and None in (sources.find(topic, name) for name in ("retention.ms", "retention.bytes")),
        copy_disabled=remote and not copied,
    )


def compaction_configs(topic: str, sources: Sources) -> CompactionConfigs | None:
    """Return the configs of ``topic`` that the cleaner goes by; None if it is not compacted.

    None also if its configs are unknown, or the ratio is not a number. What neither the metadata
    log nor ``server.properties`` sets has Kafka's default.
    """
    if not sources.has_own(topic) or "compact" not in _policies(sources, topic):
        return None
    found = sources.find(topic, "min.cleanable.dirty.ratio")
    try:
        ratio = _DEFAULT_RATIO if found is None else float(found[0])
    except ValueError:
        return None

    def lag(name: str, default: int) -> int:
        number = sources.number(topic, name)
        return default if number is None else number

    return CompactionConfigs(
        ratio,
        lag("min.compaction.lag.ms", 0),
        lag("max.compaction.lag.ms", NEVER),
        lag("delete.retention.ms", _DEFAULT_DELETE_RETENTION_MS),
        _has_cleaner(topic, sources),
    )


def least_in_sync(topic: str, sources: Sources) -> int:
    """Return the ``min.insync.replicas`` of ``topic``: 1 by default."""
    number = sources.number(topic, "min.insync.replicas")
    return 1 if number is None else number


def cordoned_directories(sources: Sources) -> tuple[str, ...]:
    """Return the log directories that take no partitions (KIP-1066); ``*`` stands for all.

    Dynamic configs of the node override ``server.properties``.
    """
    configs = [sources.config or {}]
    if sources.image is not None:
        configs.append(sources.image.broker_configs.get(str(sources.node_id), {}))
    text = next((each[_CORDONED] for each in reversed(configs) if _CORDONED in each), "")
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _has_cleaner(topic: str, sources: Sources) -> bool:
    name = "log.cleaner.enable"
    return sources.find(topic, name) is None or _flag(sources, topic, name)


def _flag(sources: Sources, topic: str, name: str) -> bool:
    found = sources.find(topic, name)
    return found is not None and _is_true(found[0])


def _policies(sources: Sources, topic: str) -> frozenset[str]:
    """Return the cleanup policies of ``topic``, empty if they are not set."""
    found = sources.find(topic, "cleanup.policy")
    return frozenset(part.strip().lower() for part in found[0].split(",")) if found else frozenset()


def _origin(topic_id: str | None, sources: Sources, *, cleaned: bool) -> str:
    if topic_id is not None:
        return "__cluster_metadata-0"
    if sources.config is not None:
        return "the broker's configuration file"
    return "the cleaner's checkpoint" if cleaned else _DEFAULTS.origin


def _int(number: int | None, least: int, default: int) -> int:
    """Return a setting of 32 bits, or ``default`` for a value that a broker does not accept."""
    return number if number is not None and least <= number <= _MAX_INT else default


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
