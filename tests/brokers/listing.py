"""Writes what the fixtures are, and the lists of their files, which ``fixtures_loader`` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from brokers import histories
from brokers.fixtures import TRIMMED_BYTES
from brokers.tiering import SHOWS
from brokers.topics import TOPICS, Topic, topics
from brokers.workload import ROUNDS
from support.fixtures_loader import FULL_SIZES, LISTS, README, REPLICAS, ROOT, SUMS, TIERED, names

_INTRODUCTION = f"""\
# Fixtures

Log directories that real Kafka brokers wrote, and beside them what a real consumer read. Nothing
here was edited by hand; `python tests/brokers` makes it (Java 17 or later and Maven), and
`tests/support/fixtures_loader.py` reads it.

- `brokers/<version>/<state>/` is the broker's log directory, after a clean stop (`clean`:
  SIGTERM) or a crash (`killed`: SIGKILL).
- `brokers/<version>/<state>.topics.json` tells the settings that were in force for each topic.
- `consumed/<version>/<state>/<topic>-<partition>.<isolation>.jsonl` is what the consumer of that
  version (`KafkaConsumer`; in 0.8 `SimpleConsumer`, which knows no times) read just before the stop
  or kill: all of the partition, one JSON object a record, bytes in base64, null as null.
  `read_committed` is there where a partition has transactions.
- `brokers/<version>/replicas/` has the log directories of three brokers and their controller, whose
  copies of ten topics have parted. `brokers/<version>/replicas.truncations.json` tells for each
  leader, topic and follower what the follower did when this leader was started first: the log end
  offset at which it began to follow, the offset to which it truncated its log, what the leader's
  answers led to on the way there, and whether it dropped its log to begin anew.
- `brokers/<version>/tiered/` is the log directory of a broker with remote storage, which is not
  stored. `brokers/<version>/tiered.offsets.json` has the offsets that it told of each topic: log
  start, the first offset here, the last in remote storage (-1 for none) and the end.

Each other broker is alone, from Kafka 3 on as a KRaft node, before that with a ZooKeeper; clients
are of the broker's version where no other is named. Its workload has {ROUNDS} rounds and a clean
restart before the last; keys, values, headers, create times and batch boundaries depend on nothing
but the topic and the round. Times of the broker, its ids and what the cleaner did when differ from
run to run. Kafka 0.8 and 0.10 write magic 0 and 1, later ones magic 2 where a topic's settings ask
for nothing older.

Tails of {TRIMMED_BYTES} zeros and more (preallocated indexes and segments) are not stored.
`FULL_SIZES` has the sizes that the broker left, and the loader's copies are as large. A stored log
keeps a few zeros, since a batch may end with one. `sha256sum -c SHA256SUMS` checks what is stored.
"""


def write(full_sizes: Mapping[str, int]) -> None:
    """Write page and lists; ``full_sizes`` has those, in bytes, of files stored trimmed."""
    parts = (
        _INTRODUCTION,
        "## Log directories\n",
        *_table(
            ("name", "broker", "state", "command"), map(_fixture, (*names(), *REPLICAS, *TIERED))
        ),
        "\n## Topics\n",
        "Settings beyond these: `index.interval.bytes=300`, `retention.ms=-1`, a `segment.ms` of\n"
        "decades. Kafka 4.3 has the segment size from `internal.segment.bytes`.\n",
        *_table(
            ("topic", "releases", "partitions", "segment bytes", "settings", "shows"),
            map(_topic, TOPICS),
        ),
        "\n## Topics of three brokers\n",
        *_table(("topic", "shows"), ((f"`{kept.name}`", kept.shows) for kept in histories.TOPICS)),
        "\n## Topics with remote storage\n",
        *_table(("topic", "shows"), ((f"`{name}`", shows) for name, shows in SHOWS.items())),
    )
    README.write_text("\n".join(parts) + "\n")
    FULL_SIZES.write_text("".join(f"{size}  {path}\n" for path, size in sorted(full_sizes.items())))
    SUMS.write_text("".join(f"{digest}  {path}\n" for path, digest in _digests()))


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    titles = tuple(head)
    for cells in (titles, ("---",) * len(titles), *rows):
        yield "| " + " | ".join(map(str, cells)) + " |"


def _fixture(name: str) -> tuple[str, ...]:
    version, state = name.split("/")
    return f"`{name}`", version, state, f"`python tests/brokers {name}`"


def _topic(topic: Topic) -> tuple[object, ...]:
    settings = ", ".join(f"`{key}={value}`" for key, value in topic.config.items())
    versions = dict.fromkeys(name.split("/")[0] for name in names())
    having = ", ".join(version for version in versions if topic in topics(version))
    name, segment_bytes = f"`{topic.name}`", topic.segment_bytes
    return name, having, topic.partitions, segment_bytes, settings, topic.shows


def _digests() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and path not in LISTS:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield path.relative_to(ROOT).as_posix(), digest
