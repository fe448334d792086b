"""What the dump tool of a Kafka release prints of files, taken apart by file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokers.oracle import Oracle

from kdump.format.lines.text import printable

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
