"""``kdump convert-v0-v2``: old messages to magic 2.

Spec: ``MemoryRecords.filterTo`` of 4.0 and later (KIP-724); KOD 6.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.command import Command
from kdump.ui.options.targets import SomePath, TargetOptions
from kdump.ui.repairs.repairing import (
    RepairOptions,
    partitions,
    repair,
    repair_options,
)

if TYPE_CHECKING:
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.commands.convert.receipt import ConvertedCopy
    from kdump.repair.rewrite.conversion import Rules
    from kdump.repair.transaction.plan import Plan

_COMMAND: Final = "convert-v0-v2"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH_BYTES: Final = 16 * 1024
#: The upper bound of --batch-bytes: a batch is built in memory.
_MOST_BATCH_BYTES: Final = 16 << 20


@click.command(
    _COMMAND,
    cls=Command,
    short_help="Rewrite message formats v0 and v1 as message format v2.",
    epilog="Exit codes: 0 nothing to do, or done; 2 wrong usage; 4 there is a plan, which --apply "
    "carries out, or verify finds errors in the result of --output; 5 something could not "
    "be read, or a repair was interrupted: the last line on standard error is then the "
    "command that continues it; 6 refused, nothing changed; 130, 143 ended by a signal; "
    "141 the reader of the output went away.",
)
@click.option(
    "--output",
    metavar="DIR",
    type=SomePath(),
    help="Write a new directory DIR/TOPIC-PARTITION with all files of the partition, and change "
    "nothing else. A broker may be running. DIR is made if need be; it must not lie in a log "
    "directory.",
)
@click.option(
    "--batch-bytes",
    type=click.IntRange(min=0, max=_MOST_BATCH_BYTES),
    default=_BATCH_BYTES,
    show_default=True,
    metavar="N",
    help="Join neighbouring uncompressed messages into batches of up to N bytes. With 0 each "
    "message gets its own batch, as from a broker's cleaner.",
)
@click.option(
    "--codec",
    type=click.Choice(_CODECS),
    help="The compression type of rewritten batches. Default: as in the source. zstd needs "
    "brokers and clients of 2.1 or later.",
)
@repair_options(_COMMAND)
def convert_v0_v2(
    targets: TargetOptions,
    output: Path | None,
    batch_bytes: int,
    codec: str | None,
    choice: RepairOptions,
) -> int:
    """Rewrite message formats v0 and v1 as message format v2, with the same records.

    PATH is a partition directory or a log directory. Offsets, timestamps, timestamp types, keys,
    values and null values stay the same. Records of message format v0 have no timestamp and get
    CreateTime -1. A compressed wrapper becomes one batch with the same compression type. Batches of
    message format v2 are copied byte for byte. New batches get the leader epoch that
    leader-epoch-checkpoint gives for their offset, and at least 0. Batches of message format v2
    without a leader epoch get it in the same way, because followers refuse such batches. Segments
    keep their names and get new indexes. A segment that would become too large for a broker is
    split.

    convert reads each new log back before it replaces the old log. A digest over offset, timestamp,
    timestamp type, key, value and headers of all records must be equal in both logs. The receipt
    holds both digests. convert refuses corrupt logs: run truncate-to-valid or salvage first. It
    decides no transaction: message formats v0 and v1 have none. Transaction indexes are copied,
    even if a marker is lost (transaction-end-lost). The old logs go into a backup, and kdump undo
    restores them. Brokers before 0.11 cannot read the result. kdump convert is the same command.
    """
    from kdump.format.codecs import Codec
    from kdump.repair.rewrite.conversion import Rules
    from kdump.ui.options.targets import find_scope

    rules = Rules(None if codec is None else Codec[codec.upper()], batch_bytes)
    choice = choice.with_arguments(
        ("--batch-bytes", None if batch_bytes == _BATCH_BYTES else batch_bytes),
        ("--codec", codec),
        ("--config", targets.config),
    )
    if output is None:
        return _in_place(find_scope(targets, stores=False), choice, rules)
    if choice.apply or choice.confirm or choice.assume_stopped or choice.full_proof:
        raise click.UsageError(
            "--output changes no existing file and proves everything: it does not take --apply, "
            "--confirm, --assume-stopped or --full-proof."
        )
    return _to_output(find_scope(targets, stores=False), choice, rules, output)


def _in_place(scope: Scope, choice: RepairOptions, rules: Rules) -> int:
    from kdump.commands.convert.plan import plan_convert

    def planner(verdict: Verdict, report: Callable[[int], None]) -> Plan:
        return plan_convert(
            verdict,
            rules,
            settings=scope.context.settings(verdict.target),
            arguments=choice.arguments,
            jobs=choice.processes,
            report=report,
        )

    # The survey and the trial conversion; with --apply also the writing and the reading back.
    return repair(scope, choice, planner, passes=4 if choice.apply else 2)


def _to_output(scope: Scope, choice: RepairOptions, rules: Rules, output: Path) -> int:
    from kdump.commands.convert.output import convert_to
    from kdump.commands.convert.report import start_report
    from kdump.ui.progress import Progress
    from kdump.ui.repairs.outputs import write_all

    targets = partitions(scope)
    output_report = start_report(choice.form, choice.command, scope)
    with Progress(choice.progress) as meter:

        def write(target: Target) -> ConvertedCopy:
            return convert_to(
                target,
                scope.context,
                output,
                rules,
                jobs=choice.processes,
                report=meter.advance,
            )

        exit_code = write_all(targets, write, output_report, meter).exit_code
    output_report.finish(exit_code)
    return exit_code
