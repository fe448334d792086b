"""What the dump tool of a Kafka release prints of files, taken apart by file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from brokers.oracle import Oracle
from kdump.cli.main import main
from kdump.format.lines.text import printable

#: The release whose tool kdump prints like.
TOOL = "4.4.0"
BATCH_SUFFIXES = (".log", ".checkpoint")
#: The decoder of Kafka's tool for each internal topic.
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
}
#: What is left out of decoded metadata.
SECRETS = re.compile(r'"(salt|storedKey|serverKey)":"[^"]*"')
#: Kafka prints line breaks inside keys and values raw, so only these begin a line of its own.
LINE_START = re.compile(
    r"\n(?=baseOffset: \d|offset: \d|\| offset: \d|timestamp: -?\d|version: \d|producerId: \d"
    r"|Found \d|/\S+ is empty\.\n|\Z)"
)
#: The values of classic groups, as 3.9.1 prints them.
GROUPS = re.compile(r'payload: (\{"version":"\d+","data":\{"protocolType".*\})$', re.MULTILINE)
EXCEPTION = re.compile(r'Exception in thread "main" ([\w.]+)')


def escaped(text: str) -> str:
    """A dump with the escapes that kdump writes."""
    return "\n".join(map(printable, LINE_START.split(text)))


def printed_by(
    kafka: Oracle, paths: Sequence[Path], options: Sequence[str]
) -> dict[Path, tuple[str, str | None]]:
    """By file what Kafka's tool prints of it, and how it failed; begun anew behind a failure."""
    left = list(paths)
    texts: dict[Path, tuple[str, str | None]] = {}
    while left:
        stdout, stderr = kafka.dump("--files", ",".join(map(str, left)), *options)
        failed = EXCEPTION.search(stderr.decode())
        printed = list(by_file(stdout.decode(), left))
        texts |= {path: (text, None) for path, text in printed}
        if failed:
            path, text = printed[-1]
            texts[path] = text, failed[1]
        assert failed or len(printed) == len(left)
        left = left[len(printed) :]
    return texts


def by_file(text: str, paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Take a dump of ``paths``, which may have ended early, apart at the lines that name them."""
    heads = [f"Dumping {path}\n" for path in paths]
    assert text.startswith(heads[0])
    for path, head, following in zip(paths, heads, [*heads[1:], None], strict=True):
        text = text.removeprefix(head)
        end = text.find(f"\n{following}") + 1 if following else 0
        if following and text.startswith(following):
            yield path, ""
        elif end:
            yield path, text[:end]
            text = text[end:]
        else:
            yield path, text
            return


def group_values(
    paths: Sequence[Path], kafka: Oracle, capfd: pytest.CaptureFixture[str]
) -> tuple[list[Any], list[Any]]:
    """The values of classic groups in logs of ``__consumer_offsets``, of kdump and of 3.9.1.

    Its decoder takes the subscriptions and assignments of consumers apart, later ones do not.
    """
    capfd.readouterr()
    main(["dump", "--decode", "--records", "--format", "json", *map(str, paths)])
    values = [
        line["value"]
        for line in map(json.loads, capfd.readouterr().out.splitlines())
        if isinstance(line.get("value"), dict)
    ]
    ours = [value["fields"] for value in values if value.get("message") == "GroupMetadataValue"]
    printed = printed_by(kafka, paths, [DECODERS["__consumer_offsets"]])
    theirs = [
        json.loads(payload)["data"]
        for text, _ in printed.values()
        for payload in GROUPS.findall(text)
    ]
    return ours, theirs
