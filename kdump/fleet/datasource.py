"""The Spark data source: ``spark.read.format("kdump").load(path)``.

The driver lists the paths, and distributes logs or partitions over tasks, which read them. Spark
applies filters: there is no ``pushFilters``, with which Spark 4.x returns wrong results. All
columns are read, unless ``schema("offset BIGINT, key BINARY")`` names some.

Spec: ``pyspark.sql.datasource`` of Spark 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target, TopicSelection
from kdump.copies.comparison import NodeDirectory
from kdump.copies.reading import Group, compare_copies, group_copies, whole_directories
from kdump.errors import SourceError, UsageError
from kdump.fleet.job.packing import log_cost, pack_tasks
from kdump.storage.manifests.path import paths_in
from kdump.storage.objects.address import AnyPath, as_path
from kdump.storage.workers import default_jobs
from kdump.tables import tables
from kdump.tables.copies import copy_batches
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

    Options: ``table`` is ``records`` (the default), ``batches``, ``findings`` or ``copies``. The
    last one has a row for each copy of each partition, with its differences from the others as an
    array: paths are those of ``kdump compare``, manifests too. ``mode`` is ``permissive`` (the
    default), which leaves out records that cannot be read, or ``failfast``.
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


@frozen
class _Groups(InputPartition):
    """The partitions whose copies one task compares, and the targets of these by number."""

    groups: tuple[Group, ...]
    targets: Mapping[int, Target]
    context: Context
    directories: tuple[NodeDirectory, ...]


class _Reader(DataSourceReader):
    def __init__(self, options: _Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """List the paths, and distribute the work over tasks."""
        options = self._options
        if not options.paths:
            raise UsageError("expected a path: spark.read.format('kdump').load(PATH)")
        paths: Iterable[AnyPath] = map(as_path, options.paths)
        if options.table == "copies":
            paths = chain.from_iterable(map(paths_in, paths))
        scope = list_scope(paths, None, options.selection)
        for root in scope.roots:
            if isinstance(root.content, SourceError) and options.table != "findings":
                raise root.content
        if options.table == "copies":
            return list(_groups(scope, options.cores))
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
        elif isinstance(partition, _Groups):
            comparisons = compare_copies(
                partition.groups,
                partition.targets,
                partition.context,
                partition.directories,
                jobs=1,
            )
            yield from copy_batches(comparisons)
        elif isinstance(partition, _Logs) and self._options.table == "batches":
            yield from tables.batch_tables(partition.logs, strict=self._options.strict)
        elif isinstance(partition, _Logs):
            yield from tables.record_batches(
                partition.logs, self._schema.names, strict=self._options.strict
            )


def _groups(scope: Scope, cores: int) -> Iterator[_Groups]:
    """Yield the tasks that compare the copies in a scope."""
    targets, directories = scope.targets, tuple(whole_directories(scope))
    groups = group_copies(scope)
    costs = [log_cost(target.path, target.with_listing().size) for target in targets]
    sizes = [sum(costs[number] for number in group.numbers) for group in groups]
    for pack in pack_tasks(sizes, cores) or [range(0)]:
        packed = tuple(groups[number] for number in pack)
        of_pack = {number: targets[number] for group in packed for number in group.numbers}
        yield _Groups(packed, of_pack, scope.context.about(of_pack.values()), directories)


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
