"""The table of finding codes, which reports, ``explain``, man pages and tests read.

code         FindingCode: severity, meaning, what a broker does, what to do, its cure.
batches      Finding codes of batches, their offsets and records.
segments     Finding codes of the order of segments in a partition.
indexes      Finding codes of offset and time indexes.
producers    Finding codes of producers, transactions, snapshots and leader epochs.
partitions   Finding codes of a partition's small files and of directory names.
directories  Finding codes of log directories and the files at their top.
metadata     Finding codes of the KRaft metadata log.
repairs      Finding codes of backups and unfinished repairs.
changes      Finding codes of changes between two scrubs.
read_errors  Finding codes of files that could not be read or checked.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kdump.audit.codes import (
    batches,
    changes,
    directories,
    indexes,
    metadata,
    partitions,
    producers,
    read_errors,
    repairs,
    segments,
)
from kdump.audit.codes.batches import *  # noqa: F403
from kdump.audit.codes.changes import *  # noqa: F403
from kdump.audit.codes.code import Cure as Cure
from kdump.audit.codes.code import FindingCode as FindingCode
from kdump.audit.codes.code import Harm as Harm
from kdump.audit.codes.code import Outcome as Outcome
from kdump.audit.codes.code import Severity as Severity
from kdump.audit.codes.directories import *  # noqa: F403
from kdump.audit.codes.indexes import *  # noqa: F403
from kdump.audit.codes.metadata import *  # noqa: F403
from kdump.audit.codes.partitions import *  # noqa: F403
from kdump.audit.codes.producers import *  # noqa: F403
from kdump.audit.codes.read_errors import *  # noqa: F403
from kdump.audit.codes.repairs import *  # noqa: F403
from kdump.audit.codes.segments import *  # noqa: F403

#: The codes of each family by its title, in the order of the manual and of ``explain --list``.
FAMILIES: Final[Mapping[str, tuple[FindingCode, ...]]] = MappingProxyType(
    {
        title: tuple(code for code in vars(family).values() if isinstance(code, FindingCode))
        for title, family in (
            ("Batches, their offsets and records", batches),
            ("Offset and time indexes", indexes),
            ("Log directories and the files at their top", directories),
            ("The small files of a partition, and names", partitions),
            ("The order of segments", segments),
            ("The cluster's metadata log", metadata),
            ("Producers, transactions, snapshots and leader epochs", producers),
            ("Backups and unfinished repairs", repairs),
            ("Changes between two scrubs", changes),
            ("What could not be checked", read_errors),
        )
    }
)
#: The table of codes by name, in the same order.
CODES: Final[Mapping[str, FindingCode]] = MappingProxyType(
    {code.name: code for family in FAMILIES.values() for code in family}
)


def find_code(name: str) -> FindingCode:
    """Return the code ``name``; raises KeyError without one."""
    return CODES[name]


def _reduce(code: FindingCode) -> tuple[Callable[[str], FindingCode], tuple[str]]:
    return find_code, (code.name,)


# Findings travel between processes, and there is one object of each code.
copyreg.pickle(FindingCode, _reduce)
