"""``kdump dump``: the content of segments and small files.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0 for the text (KOD 8).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.command import Command
from kdump.ui.options.filters import filter_options
from kdump.ui.options.group import option_group
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LogPath, refuse_manifests
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.storage.paths import AnyPath
    from kdump.storage.selection import Selection


#: The decoders of Kafka's tool, and the topics whose records they read.
_DECODERS: Final = {
    "offsets": "__consumer_offsets",
    "transaction-log": "__transaction_state",
    "cluster-metadata": "__cluster_metadata",
    "remote-log-metadata": "__remote_log_metadata",
    "share-group-state": "__share_group_state",
}


def _internal_topic(_: click.Context, parameter: click.Parameter, topic: str | None) -> str | None:
    from kdump.format.messages.payloads import INTERNAL_TOPICS

    if topic is not None and topic not in INTERNAL_TOPICS:
        names = ", ".join(INTERNAL_TOPICS)
        raise click.BadParameter(f"expected one of {names}, found {topic!r}", param=parameter)
    return topic


#: The options of Kafka's tool that dump does not take, and what does their work.
_INSTEAD: Final = {
    "--index-sanity-check": "kdump verify checks indexes, give it the same files",
    "--verify-index-only": "kdump verify checks indexes, give it the same files",
    "--max-bytes": "--limit ends after a number of batches or records",
    "--max-message-size": "there is no such limit, leave it out",
    "--skip-record-metadata": "--format json --records gives each field a name to select",
    "--key-decoder-class": "--data prints keys as text, --format json --base64 as bytes",
    "--value-decoder-class": "--data prints values as text, --format json --base64 as bytes",
}


@frozen
class KafkaOptions:
    """The options of Kafka's tool; ``decoder`` is the topic of the decoder that was named."""

    files: tuple[AnyPath, ...]
    print_data_log: bool
    deep_iteration: bool
    decoder: str | None


def _split(_: click.Context, __: click.Parameter, files: str | None) -> tuple[AnyPath, ...]:
    return tuple(LogPath().convert(file, None, None) for file in (files or "").split(",") if file)


_kafka_options = option_group(
    "kafka",
    KafkaOptions,
    click.option(
        "--files",
        metavar="PATH,...",
        callback=_split,
        help="As Kafka's tool: more PATHs, with commas between them.",
    ),
    click.option("--print-data-log", is_flag=True, help="As Kafka's tool: the same as --data."),
    click.option("--deep-iteration", is_flag=True, help="As Kafka's tool: the same as --records."),
    *(
        click.option(
            f"--{name}-decoder",
            "decoder",
            flag_value=topic,
            help=f"As Kafka's tool: --data --topic-name {topic}.",
        )
        for name, topic in _DECODERS.items()
    ),
)


class _Dump(Command):
    """A command whose help lists where it differs from Kafka's tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raise UsageError for an option that only Kafka's tool has."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            instead = _INSTEAD.get(error.option_name)
            if instead is None:
                raise
            text = f"{error.option_name} is an option of Kafka's tool alone: {instead}."
            raise click.UsageError(text, ctx) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kdump.commands.dump.differences import DIFFERENCES

        with formatter.section("Differences from Kafka's tool"):
            formatter.write_dl(list(DIFFERENCES.items()))
        super().format_epilog(ctx, formatter)


@click.command(
    cls=_Dump,
    short_help="Print batches (or --records), index entries, small files.",
    epilog="Exit codes: 0 printed; 2 wrong usage; 4 corruption was found and shown; 5 something "
    "could not be read, which comes before 4; 130, 143 ended by a signal; 141 the reader of the "
    "output went away.",
)
@format_option("Text as Kafka's own dump tool prints it, or JSON Lines with every field.")
@click.option("--records", is_flag=True, help="Print the records of each batch too.")
@click.option("--data", is_flag=True, help="Print keys and values in the text; implies --records.")
@click.option(
    "--decode/--raw",
    default=None,
    help="Decode keys and values of internal topics, in text like the decoders of Kafka's tool; "
    "implies --data in text, --records in JSON. In text, --data implies --decode, unless --raw is "
    "given.",
)
@click.option(
    "--topic-name",
    metavar="TOPIC",
    callback=_internal_topic,
    help="Decode PATH as files of this internal topic, such as __consumer_offsets, whatever the "
    "name of their directory; implies --decode, unless --raw is given.",
)
@click.option("--base64", is_flag=True, help="Print all bytes in JSON as base64, text or not.")
@filter_options(
    until=" If no records are printed, a batch has the timestamp of its first record.",
    key="; implies --records",
    limit="End after N records in the whole run, or N batches if no records are printed.",
)
@click.option(
    "--summary",
    is_flag=True,
    help="Print totals of the batches of each partition: counts, sizes, offsets, times, "
    "compression, producers, transactions.",
)
@_kafka_options
@click.argument("paths", nargs=-1, metavar="PATH...", type=LogPath())
def dump(
    paths: tuple[AnyPath, ...],
    form: str,
    records: bool,
    data: bool,
    decode: bool | None,
    topic_name: str | None,
    base64: bool,
    selection: Selection,
    summary: bool,
    kafka: KafkaOptions,
) -> int:
    """Print the content of PATH: a file that brokers write, a partition or a log directory.

    PATH may also be an address, such as s3://BUCKET/PREFIX. In a directory, dump prints the
    segments and metadata snapshots. It prints other files if PATH names them: .index, .timeindex,
    .txnindex and .snapshot files, offset checkpoints, leader-epoch-checkpoint, partition.metadata,
    meta.properties, quorum-state and .kafka_cleanshutdown.

    Corruption is printed where it occurs, and the dump continues after it. In text, keys and values
    are printed only with --data. Decoded metadata leaves secrets out; raw bytes have them.
    Characters that could upset a terminal are escaped.

    Filters can be combined. Without records, dump prints every batch that may hold a match
    according to its header. With records, it prints only batches that hold a match. It always shows
    corruption in the parts that it reads.
    """
    from kdump.commands.dump.lines import JsonDump, TextDump
    from kdump.commands.dump.records import Printer
    from kdump.commands.dump.run import (
        DumpReceiver,
        file_sizes,
        files,
        run,
        warn_if_undecoded,
    )
    from kdump.errors import SourceError
    from kdump.ui.kernel import warn_if_plain

    paths += kafka.files
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    data = data or kafka.print_data_log or kafka.decoder is not None
    records, topic_name = records or kafka.deep_iteration, topic_name or kafka.decoder
    if form == "json" and data:
        raise click.UsageError("--data is for text: use --records with --format json.")
    if form == "text" and base64:
        raise click.UsageError("--base64 is for JSON: use --format json.")
    in_json = form == "json"
    if decode is None and topic_name is not None:
        decode = True
    data = data or (bool(decode) and not in_json)
    records = records or data or bool(decode) or selection.key is not None
    if summary and (records or base64):
        raise click.UsageError("--summary describes batches: it prints no records, bytes or keys.")
    refuse_manifests(paths)
    found = [
        file if isinstance(file, SourceError) else replace(file, named_topic=topic_name)
        for file in files(paths, selection, summary=summary)
    ]
    warn_if_plain(file_sizes(found))
    if decode:
        warn_if_undecoded(found)
    out = sys.stdout.buffer
    output: DumpReceiver
    if summary:
        from kdump.commands.dump.summary import JsonView, Summarizer, TextView

        view = JsonView(paths) if in_json else TextView(terminal=out.isatty())
        output = Summarizer(view, selection, out)
    else:
        renderer = (
            JsonDump(paths, force_base64=base64, decode=bool(decode))
            if in_json
            else TextDump(data=data, decode=data if decode is None else decode)
        )
        output = Printer(renderer, selection, out, records=records)
    return run(found, output)
