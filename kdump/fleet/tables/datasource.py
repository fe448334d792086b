"""The Spark data source: ``spark.read.format("kdump").load(path)``.

The driver lists the paths and shares out what is there; tasks read. Filters stay with Spark, which
calls no ``pushFilters`` here: with that method it gives wrong answers in 4.x. All columns are read,
unless ``schema("offset BIGINT, key BINARY")`` names some.

Spec: ``pyspark.sql.datasource`` of Spark 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import Selection, Target
from kdump.errors import SourceError, UsageError
from kdump.fleet.job.packing import packs
from kdump.fleet.tables import tables
from kdump.fleet.tables.findings import finding_rows
from kdump.fleet.tables.schema import TABLES
from kdump.storage.objects.address import as_path
from kdump.storage.workers import default_jobs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

#: Spark's own words for what a reader does with what it cannot read.
_MODES: Final = ("permissive", "failfast")
_OPTIONS: Final = ("path", "paths", "table", "mode", "topic", "exclude", "deep", "cores")
_BOOLEANS: Final = {"true": True, "false": False}


class KdumpDataSource(DataSource):
    """The tables of segments, partition directories and log directories.

    Options: ``table`` is ``records`` (unless another one is given), ``batches`` or ``findings``;
    ``mode`` is ``permissive``, which leaves out of the records what cannot be read, or
    ``failfast``; ``topic`` and ``exclude`` are patterns; ``deep`` has every record read for the
    findings; ``cores`` is how many tasks run at a time, by which the work is shared out.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kdump"

    def schema(self) -> StructType:
        """The whole table."""
        return from_arrow_schema(TABLES[_Asked.by(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the columns that ``schema`` names."""
        asked = _Asked.by(self.options)
        return _Reader(asked, _checked(schema, asked.table))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options say."""

    paths: tuple[str, ...]
    table: str
    strict: bool
    selection: Selection
    deep: bool
    cores: int

    @classmethod
    def by(cls, options: Mapping[str, str]) -> _Asked:
        """Check them. Raises UsageError."""
        for name in options:
            if name.lower() not in _OPTIONS:
                raise UsageError(f"option {name}: expected one of {', '.join(_OPTIONS)}")
        paths = json.loads(options.get("paths", "[]"))
        paths += [options["path"]] if "path" in options else []
        cores = options.get("cores", str(default_jobs()))
        if not (cores.isdecimal() and int(cores)):
            raise UsageError(f"option cores: expected a number from 1 on, found {cores}")
        table = _one_of("table", options.get("table", "records"), TABLES)
        topics, excluded = _patterns(options, "topic"), _patterns(options, "exclude")
        return cls(
            tuple(paths),
            table,
            _one_of("mode", options.get("mode", _MODES[0]), _MODES) == "failfast",
            Selection(topics, excluded, served=table != "findings"),
            _BOOLEANS[_one_of("deep", options.get("deep", "false"), _BOOLEANS)],
            int(cores),
        )


@dataclass(frozen=True, slots=True)
class _Logs(InputPartition):
    """Logs that one task reads."""

    logs: tuple[tables.Log, ...]


@dataclass(frozen=True, slots=True)
class _Groups(InputPartition):
    """Partitions that one task judges, or what the driver has found above them."""

    targets: tuple[Target, ...]
    context: Context | None
    found: tuple[Finding, ...] = ()


class _Reader(DataSourceReader):
    def __init__(self, asked: _Asked, schema: pa.Schema) -> None:
        self._asked = asked
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """List what there is, and share it out."""
        asked = self._asked
        if not asked.paths:
            raise UsageError("expected a path: spark.read.format('kdump').load(PATH)")
        scope = list_scope(map(as_path, asked.paths), None, asked.selection)
        for root in scope.roots:
            if isinstance(root.content, SourceError) and asked.table != "findings":
                raise root.content
        if asked.table != "findings":
            logs = list(tables.logs_of(scope.targets, strict=asked.strict))
            sizes = [log.size for log in logs]
            return [
                _Logs(tuple(logs[number] for number in pack)) for pack in packs(sizes, asked.cores)
            ] or [_Logs(())]
        targets = [target.with_listing() for target in scope.targets]
        shares = packs([target.size for target in targets], asked.cores)
        return [
            _Groups((), None, reconcile_directories(scope.context)),
            *(_Groups(tuple(targets[n] for n in pack), scope.context) for pack in shares),
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the share of one task."""
        names = self._schema.names
        for batch in self._batches(partition):
            yield batch.select(names).cast(self._schema)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Groups):
            if partition.found:
                yield finding_rows(partition.found, None)
            if partition.context is not None:
                yield from tables.finding_batches(
                    partition.targets, partition.context, deep=self._asked.deep, jobs=1
                )
        elif isinstance(partition, _Logs) and self._asked.table == "batches":
            yield from tables.batch_tables(partition.logs, strict=self._asked.strict)
        elif isinstance(partition, _Logs):
            yield from tables.record_batches(
                partition.logs, self._schema.names, strict=self._asked.strict
            )


def _checked(schema: StructType, table: str) -> pa.Schema:
    """The schema in Arrow's terms. Raises UsageError for a column that the table has not."""
    import pyarrow as pa

    whole = TABLES[table]
    spark_types = {field.name: field.dataType for field in from_arrow_schema(whole)}
    fields = []
    for field in schema:
        known = spark_types.get(field.name)
        if known != field.dataType:
            expected = "one of " + ", ".join(spark_types) if known is None else known.simpleString()
            raise UsageError(
                f"column {field.name} of the table {table}: expected {expected}, found "
                f"{field.dataType.simpleString()}"
            )
        fields.append(whole.field(field.name).with_nullable(field.nullable))
    return pa.schema(fields)


def _one_of(option: str, value: str, known: Sequence[str] | Mapping[str, object]) -> str:
    if value.lower() not in known:
        raise UsageError(f"option {option}: expected {' or '.join(known)}, found {value}")
    return value.lower()


def _patterns(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return (options[name],) if name in options else ()
