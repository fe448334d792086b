"""The Spark data source: ``spark.read.format("kdump").load(path)``.

The driver lists the paths, and distributes logs or partitions over tasks, which read them. With
``schema`` ``kafka`` the records have the columns of Spark's Kafka source. Options of that source
select topics, partitions and offsets: of other segments nothing is read, and of a segment what its
offset index leads to. All columns are read, unless ``schema("offset BIGINT, key BINARY")`` names
some. ``spark.readStream`` gives the records of sealed segments: see ``kdump.fleet.source.stream``.

Spark applies filters: there is no ``pushFilters``. In Spark 4.1 to 4.3 the filters that were pushed
last apply to all scans of a DataFrame or a table, which returns wrong rows: the scans share one
``PythonDataSourceV2``, which holds the partitions and the function that reads them
(``setReadInfo``). ``tests/fleet/test_datasource.py`` shows it.

Spec: ``pyspark.sql.datasource`` of Spark 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyspark

from kdump.fleet.session.version import check_version

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
    from pyspark.sql.pandas.types import from_arrow_schema
except ModuleNotFoundError:
    check_version()
    raise

from kdump.audit.findings import Finding
from kdump.audit.run.gone_partitions import gone_partitions
from kdump.audit.run.groups import GroupWorkers
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target, log_cost
from kdump.copies.reading import CopyGroup, CopyStages, group_copies
from kdump.errors import UsageError, VanishedError
from kdump.fleet.job.packing import pack_tasks
from kdump.fleet.source.bad_records import BadRecords, shown_rows
from kdump.fleet.source.columns import (
    CORRUPT,
    KAFKA,
    KAFKA_WITH_HEADERS,
    record_names,
    record_rows,
)
from kdump.fleet.source.committed import WITHOUT_MARKERS, committed_records
from kdump.fleet.source.offsets import PartitionLogs, is_gone, select_logs
from kdump.fleet.source.options import ColumnOptions, Options, given_options, of_table
from kdump.fleet.source.paths import expand_paths
from kdump.storage.manifests.path import paths_in
from kdump.tables import tables
from kdump.tables.copies import copy_batches
from kdump.tables.corruption import CorruptRange, rest_of
from kdump.tables.findings import finding_rows
from kdump.tables.logs import Log, check_roots, list_logs
from kdump.tables.schema import TABLES
from kdump.tables.selected import Keep
from kdump.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


#: The key of the options of a table, in the metadata of its first column: of what a catalog has of
#: a table, Spark 4.1 to 4.3 passes the schema alone (``PythonDataSourceV2.getTable``).
_OPTIONS: Final = "kdump.options"


def register(spark: SparkSession) -> None:
    """Register ``spark.read.format("kdump")`` and ``spark.readStream.format("kdump")``."""
    spark.dataSource.register(KdumpDataSource)


class KdumpDataSource(DataSource):
    """The tables of segments, partition directories and log directories.

    Options: ``table`` is ``records`` (the default), ``batches``, ``findings`` or ``copies``. The
    last one has a row for each copy of each partition, with its differences from the others as an
    array: paths are those of ``kdump compare``, manifests too. ``mode`` is ``FAILFAST`` (the
    default), with which a query of records fails at corruption; with ``PERMISSIVE`` and
    ``DROPMALFORMED`` it goes on, and ``badRecordsPath`` is a directory that gets a row for each
    corrupt range. ``topic`` and ``exclude`` are patterns. With ``deep``, every record is read for
    the findings. ``cores`` is the number of tasks that run at a time; the work is divided by it.
    ``schema`` is ``kafka`` for the columns of Spark's Kafka source. Records have these options of
    that source: ``assign``, ``subscribe``, ``subscribePattern``; ``startingOffsets``,
    ``startingTimestamp``, ``startingOffsetsByTimestamp``, ``startingOffsetsByTimestampStrategy``,
    and those of the end; ``includeHeaders``, ``failOnDataLoss``, ``kafka.isolation.level``. A
    stream has no end, and has ``maxOffsetsPerTrigger`` or ``maxBytesPerTrigger``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kdump"

    def schema(self) -> StructType:
        """Return the schema of the whole table; that of ``CREATE TABLE`` holds its options."""
        schema = from_arrow_schema(_table_schema(ColumnOptions.parse(self.options)))
        if of_table(self.options):
            schema.fields[0].metadata = {_OPTIONS: given_options(self.options)}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns that ``schema`` names."""
        options = Options.parse(self._given(schema))
        return _Reader(options, _arrow_schema(schema, options.layout))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of sealed segments. Raise UsageError before Spark 4.2."""
        if find_spec("pyspark.sql.streaming.datasource") is None:
            raise UsageError(
                "expected Spark 4.2 or newer to read a stream, which tells a data source in Python "
                f"where it is, found {pyspark.__version__}"
            )
        from kdump.fleet.source.stream import StreamReader

        options = Options.parse(self._given(schema), stream=True)
        return StreamReader(options, _arrow_schema(schema, options.layout))

    def _given(self, schema: StructType) -> dict[str, str]:
        """Return the options, those that ``schema`` holds included."""
        of_schema = schema.fields[0].metadata.get(_OPTIONS, {}) if schema.fields else {}
        return {**of_schema, **given_options(self.options)}


@frozen
class _Logs(InputPartition):
    """The logs that one task reads, or ranges that the driver knows to be unreadable."""

    logs: tuple[Log, ...]
    corrupt: tuple[CorruptRange, ...] = ()


@frozen
class _Partitions(InputPartition):
    """The partitions whose committed records one task reads."""

    partitions: tuple[PartitionLogs, ...]


@frozen
class _Targets(InputPartition):
    """The partitions that one task verifies, or the findings of the driver about directories."""

    targets: tuple[Target, ...]
    context: Context | None
    findings: tuple[Finding, ...] = ()


@frozen
class _Groups(InputPartition):
    """The partitions whose copies one task compares, and the targets of these by number."""

    groups: tuple[CopyGroup, ...]
    targets: Mapping[int, Target]
    context: Context
    stages: CopyStages


class _Reader(DataSourceReader):
    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """List the paths, and distribute the work over tasks."""
        options = self._options
        if not options.paths:
            raise UsageError(
                "expected a path: spark.read.format('kdump').load(PATH), or CREATE TABLE NAME "
                "USING kdump OPTIONS (path 'PATH') without columns"
            )
        copies = options.table == "copies"
        paths = expand_paths(options.paths, manifests=copies)
        if copies:
            paths = chain.from_iterable(map(paths_in, paths))
        scope = list_scope(paths, None, options.selection)
        if options.table == "findings":
            return self._findings(scope)
        check_roots(scope.roots)
        if copies:
            return list(_groups(scope, options.cores))
        if options.table == "batches":
            return self._logs(list_logs(scope.targets, strict=True))
        bad = BadRecords(options)
        bad.prepare()
        gone = gone_partitions(scope.roots, scope.context, options.selection)
        found = select_logs([*scope.targets, *gone], options, scope.context, bad)
        bad.write()
        shown = _Logs((), bad.take_shown())
        selected = [partition for partition in found if partition.logs]
        if not options.committed:
            logs = self._logs(log for partition in selected for log in partition.logs)
            return [shown, *logs] if shown.corrupt else logs
        packs = pack_tasks([partition.size for partition in selected], options.cores)
        tasks = [_Partitions(tuple(selected[number] for number in pack)) for pack in packs]
        return [shown, *tasks] if shown.corrupt or not tasks else tasks

    def _logs(self, found: Iterable[Log]) -> Sequence[InputPartition]:
        logs = list(found)
        packs = pack_tasks([log.size for log in logs], self._options.cores)
        return [_Logs(tuple(logs[number] for number in pack)) for pack in packs] or [_Logs(())]

    def _findings(self, scope: Scope) -> Sequence[InputPartition]:
        targets = [target.with_listing() for target in scope.targets]
        packs = pack_tasks([target.size for target in targets], self._options.cores)
        return [
            _Targets((), None, reconcile_directories(scope.context)),
            *(_Targets(tuple(targets[n] for n in pack), scope.context) for pack in packs),
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the table of the logs or partitions of one task."""
        if isinstance(partition, _Targets):
            batches = self._finding_batches(partition)
        elif isinstance(partition, _Groups):
            batches = _copy_rows(partition)
        elif self._options.table == "batches":
            assert isinstance(partition, _Logs)
            batches = tables.batch_tables(partition.logs, strict=self._options.strict)
        else:
            yield from self._records(partition)
            return
        for batch in batches:
            yield batch.select(self._schema.names).cast(self._schema)

    def _finding_batches(self, partition: _Targets) -> Iterator[pa.RecordBatch]:
        if partition.findings:
            yield finding_rows(partition.findings, None)
        if partition.context is not None:
            yield from tables.finding_batches(
                partition.targets, partition.context, deep=self._options.deep, jobs=1
            )

    def _records(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records, and those of ranges that cannot be read."""
        kafka, strict = self._options.kafka, self._options.strict
        bad = BadRecords(self._options)
        gone = partial(self._gone, bad)
        found = (
            record_rows(batch, self._schema, kafka=kafka, strict=strict)
            for logs, keep in _kept(partition, bad, kafka=kafka)
            for batch in tables.record_batches(
                logs, record_names(self._schema, kafka=kafka), bad, keep=keep, gone=gone
            )
        )
        if isinstance(partition, _Logs):
            yield from shown_rows(partition.corrupt, self._schema)
        yield from bad.rows(found, self._schema)

    def _gone(self, bad: BadRecords, log: Log, next_offset: int, error: VanishedError) -> None:
        """Raise VanishedError, or pass over the rest of a log that is gone."""
        if not is_gone(log.path):
            raise error
        if not self._options.lenient:
            raise VanishedError(
                log.path,
                f"{error}: retention or compaction may have removed it: run the query again; with "
                "failOnDataLoss=false it is passed over",
            )
        if (rest := rest_of(log, next_offset)) is not None:
            bad.pass_over(rest)


def _kept(
    partition: InputPartition, bad: BadRecords, *, kafka: bool
) -> Iterator[tuple[Sequence[Log], Keep | None]]:
    """Yield logs with the filter for their batches."""
    if isinstance(partition, _Partitions):
        for each in partition.partitions:
            yield each.logs, committed_records(each, bad).batches
        return
    assert isinstance(partition, _Logs)
    yield partition.logs, WITHOUT_MARKERS.batches if kafka else None


def _groups(scope: Scope, cores: int) -> Iterator[_Groups]:
    """Yield the tasks that compare the copies in a scope."""
    targets, groups, stages = scope.targets, group_copies(scope), CopyStages.of(scope)
    costs = [log_cost(target.path, target.with_listing().size) for target in targets]
    sizes = [sum(costs[number] for number in group.numbers) for group in groups]
    for pack in pack_tasks(sizes, cores) or [range(0)]:
        packed = tuple(groups[number] for number in pack)
        of_pack = {number: targets[number] for group in packed for number in group.numbers}
        yield _Groups(packed, of_pack, scope.context.about(of_pack.values()), stages)


def _copy_rows(task: _Groups) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the copies that one task compares."""
    here = GroupWorkers(task.targets, task.context, jobs=1)
    return copy_batches(here(task.stages, task.groups))


def _table_schema(layout: ColumnOptions) -> pa.Schema:
    """Return the columns of the whole table."""
    if layout.kafka:
        return KAFKA_WITH_HEADERS if layout.headers else KAFKA
    return TABLES[layout.table]


def _arrow_schema(schema: StructType, layout: ColumnOptions) -> pa.Schema:
    """Return the schema as Arrow's. Raise UsageError for a column that the table does not have."""
    import pyarrow as pa

    table_schema = _table_schema(layout)
    if layout.table == "records":
        table_schema = table_schema.append(CORRUPT)
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
                f"column {field.name} of the table {layout.table}: expected {expected}, found "
                f"{field.dataType.simpleString()}"
            )
        fields.append(table_schema.field(field.name).with_nullable(field.nullable))
    return pa.schema(fields)
