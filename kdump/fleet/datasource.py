"""The Spark data source: ``spark.read.format("kdump").load(path)``.

The driver lists the paths, and distributes logs or partitions over tasks, which read them. Spark
applies filters: there is no ``pushFilters``, with which Spark 4.x returns wrong results. All
columns are read, unless ``schema("offset BIGINT, key BINARY")`` names some.

Spec: ``pyspark.sql.datasource`` of Spark 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import Target, TopicSelection
from kdump.errors import SourceError, UsageError
from kdump.fleet.job.packing import pack_tasks
from kdump.storage.objects.address import as_path
from kdump.storage.workers import default_jobs
from kdump.tables import tables
from kdump.tables.findings import finding_rows
from kdump.tables.logs import Log, list_logs
from kdump.tables.schema import TABLES
from kdump.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: Spark's own names of the modes of a reader for malformed data.
_MODES: Final = ("permissive", "failfast")
_OPTIONS: Final = ("path", "paths", "table", "mode", "topic", "exclude", "deep", "cores")
_BOOLEANS: Final = {"true": True, "false": False}


def register(spark: SparkSession) -> None:
    """Register ``spark.read.format("kdump")``."""
    spark.dataSource.register(KdumpDataSource)


class KdumpDataSource(DataSource):
    """The tables of segments, partition directories and log directories.

    Options: ``table`` is ``records`` (the default), ``batches`` or ``findings``. ``mode`` is
    ``permissive`` (the default), which leaves out records that cannot be read, or ``failfast``.
    ``topic`` and ``exclude`` are patterns. With ``deep``, every record is read for the findings.
    ``cores`` is the number of tasks that run at a time; the work is divided by it.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kdump"

    def schema(self) -> StructType:
        """Return the schema of the whole table."""
        return from_arrow_schema(TABLES[_Options.parse(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns that ``schema`` names."""
        options = _Options.parse(self.options)
        return _Reader(options, _arrow_schema(schema, options.table))


@frozen
class _Options:
    """The options, parsed."""

    paths: tuple[str, ...]
    table: str
    strict: bool
    selection: TopicSelection
    deep: bool
    cores: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> _Options:
        """Return the parsed ``options``. Raise UsageError for an unknown name or value."""
        for name in options:
            if name.lower() not in _OPTIONS:
                raise UsageError(f"option {name}: expected one of {', '.join(_OPTIONS)}")
        paths = json.loads(options.get("paths", "[]"))
        paths += [options["path"]] if "path" in options else []
        cores = options.get("cores", str(default_jobs()))
        if not (cores.isdecimal() and int(cores)):
            raise UsageError(f"option cores: expected a number from 1 on, found {cores}")
        table = _choice("table", options.get("table", "records"), TABLES)
        topics, excluded = _pattern(options, "topic"), _pattern(options, "exclude")
        return cls(
            tuple(paths),
            table,
            _choice("mode", options.get("mode", _MODES[0]), _MODES) == "failfast",
            TopicSelection(topics, excluded, served=table != "findings"),
            _BOOLEANS[_choice("deep", options.get("deep", "false"), _BOOLEANS)],
            int(cores),
        )


@frozen
class _Logs(InputPartition):
    """The logs that one task reads."""

    logs: tuple[Log, ...]


@frozen
class _Targets(InputPartition):
    """The partitions that one task verifies, or the findings of the driver about directories."""

    targets: tuple[Target, ...]
    context: Context | None
    findings: tuple[Finding, ...] = ()


class _Reader(DataSourceReader):
    def __init__(self, options: _Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """List the paths, and distribute the work over tasks."""
        options = self._options
        if not options.paths:
            raise UsageError("expected a path: spark.read.format('kdump').load(PATH)")
        scope = list_scope(map(as_path, options.paths), None, options.selection)
        for root in scope.roots:
            if isinstance(root.content, SourceError) and options.table != "findings":
                raise root.content
        if options.table != "findings":
            logs = list(list_logs(scope.targets, strict=options.strict))
            sizes = [log.size for log in logs]
            return [
                _Logs(tuple(logs[number] for number in pack))
                for pack in pack_tasks(sizes, options.cores)
            ] or [_Logs(())]
        targets = [target.with_listing() for target in scope.targets]
        packs = pack_tasks([target.size for target in targets], options.cores)
        return [
            _Targets((), None, reconcile_directories(scope.context)),
            *(_Targets(tuple(targets[n] for n in pack), scope.context) for pack in packs),
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the table of the logs or partitions of one task."""
        names = self._schema.names
        for batch in self._batches(partition):
            yield batch.select(names).cast(self._schema)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Targets):
            if partition.findings:
                yield finding_rows(partition.findings, None)
            if partition.context is not None:
                yield from tables.finding_batches(
                    partition.targets, partition.context, deep=self._options.deep, jobs=1
                )
        elif isinstance(partition, _Logs) and self._options.table == "batches":
            yield from tables.batch_tables(partition.logs, strict=self._options.strict)
        elif isinstance(partition, _Logs):
            yield from tables.record_batches(
                partition.logs, self._schema.names, strict=self._options.strict
            )


def _arrow_schema(schema: StructType, table: str) -> pa.Schema:
    """Return the schema as Arrow's. Raise UsageError for a column that the table does not have."""
    import pyarrow as pa

    table_schema = TABLES[table]
    spark_types = {field.name: field.dataType for field in from_arrow_schema(table_schema)}
    fields = []
    for field in schema:
        spark_type = spark_types.get(field.name)
        if spark_type != field.dataType:
            expected = (
                "one of " + ", ".join(spark_types)
                if spark_type is None
                else spark_type.simpleString()
            )
            raise UsageError(
                f"column {field.name} of the table {table}: expected {expected}, found "
                f"{field.dataType.simpleString()}"
            )
        fields.append(table_schema.field(field.name).with_nullable(field.nullable))
    return pa.schema(fields)


def _choice(option: str, value: str, known: Sequence[str] | Mapping[str, object]) -> str:
    if value.lower() not in known:
        raise UsageError(f"option {option}: expected {' or '.join(known)}, found {value}")
    return value.lower()


def _pattern(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return (options[name],) if name in options else ()
