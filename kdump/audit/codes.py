"""The list of modules with findings, in the order of the report, and the table of their codes.

A module declares the codes of its findings. ``SEGMENT_CHECKS`` are its checks that see each segment
by itself, ``CHECKS`` those of a partition, ``DIRECTORY_CHECKS`` those of a log directory, and
``NODE_CHECKS`` those of all log directories of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Final

from kdump.audit.checks import (
    assigned_replicas,
    batches,
    broker_rights,
    changes,
    configs,
    directory,
    epochs,
    file_names,
    file_types,
    futures,
    indexes,
    leftovers,
    meta_properties,
    metadata,
    missing_offsets,
    node,
    partition_files,
    producers,
    read_errors,
    repair_records,
    segments,
    swap_files,
    topic,
    transactions,
    txn_indexes,
)
from kdump.audit.finding_code import FindingCode
from kdump.audit.startup import room


class Family(Enum):
    """The titles of finding codes in the manual, in its order."""

    BATCHES = "Batches, their offsets and records"
    INDEXES = "Offset and time indexes"
    DIRECTORIES = "Log directories and the files at their top"
    PARTITIONS = "The small files of a partition, and names"
    SEGMENTS = "The order of segments"
    METADATA = "The cluster's metadata log"
    PRODUCERS = "Producers, transactions, snapshots and leader epochs"
    REPAIRS = "Backups and unfinished repairs"
    CHANGES = "Changes between two scrubs"
    UNCHECKED = "Files that could not be checked"


#: The modules with findings. Their checks run in this order.
MODULES: Final[tuple[tuple[ModuleType, Family], ...]] = (
    (directory, Family.DIRECTORIES),
    (meta_properties, Family.DIRECTORIES),
    (node, Family.DIRECTORIES),
    (batches, Family.BATCHES),
    (indexes, Family.INDEXES),
    (file_names, Family.PARTITIONS),
    (read_errors, Family.UNCHECKED),
    (broker_rights, Family.DIRECTORIES),
    (file_types, Family.PARTITIONS),
    (futures, Family.DIRECTORIES),
    (assigned_replicas, Family.DIRECTORIES),
    (topic, Family.PARTITIONS),
    (partition_files, Family.PARTITIONS),
    (leftovers, Family.PARTITIONS),
    (repair_records, Family.REPAIRS),
    (swap_files, Family.PARTITIONS),
    (metadata, Family.METADATA),
    (configs, Family.PARTITIONS),
    (missing_offsets, Family.SEGMENTS),
    (segments, Family.SEGMENTS),
    (transactions, Family.PRODUCERS),
    (producers, Family.PRODUCERS),
    (txn_indexes, Family.PRODUCERS),
    (epochs, Family.PRODUCERS),
    (room, Family.DIRECTORIES),
    (changes, Family.CHANGES),
)
#: The codes of each family by its title, in the order of the manual and of ``explain --list``.
FAMILIES: Final[Mapping[str, tuple[FindingCode, ...]]] = MappingProxyType(
    {
        family.value: tuple(
            code
            for module, its_family in MODULES
            if its_family is family
            for code in vars(module).values()
            if isinstance(code, FindingCode)
        )
        for family in Family
    }
)
#: The table of codes by name, in the same order.
CODES: Final[Mapping[str, FindingCode]] = MappingProxyType(
    {code.name: code for family in FAMILIES.values() for code in family}
)
