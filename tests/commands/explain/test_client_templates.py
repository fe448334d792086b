"""How much of what clients print for damage and lost offsets ``explain`` answers, by client.

Spec: record/, codec.py and consumer/fetcher.py of the wheels of aiokafka 0.14.0 and kafka-python
3.0.12; the strings of the library in the wheel of confluent-kafka 2.16.1, and
rdkafka_msgset_reader.c of librdkafka; the decoders of sarama, and the errors of Go's codecs;
Fetcher and FetchCollector of Kafka's own clients.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.commands.explain.broker_log.message import Subject
from kdump.commands.explain.broker_log.table import mentions_disks, recognize

SHARE = 0.95


def _read() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in Path(__file__).with_name("client_templates.tsv").read_text().splitlines():
        client, template = row.split("\t")
        found.setdefault(client, []).append(template.replace("{}", "7"))
    return found


LINES = _read()


@pytest.mark.parametrize("client", LINES)
def test_what_a_client_prints_for_damage_is_answered(client: str) -> None:
    silent = [line for line in LINES[client] if recognize(line) is None]
    print(f"{client}: {len(LINES[client]) - len(silent)} of {len(LINES[client])} answered")
    assert len(silent) <= (1 - SHARE) * len(LINES[client]), silent


@pytest.mark.parametrize("client", LINES)
def test_without_an_answer_it_is_not_said_not_to_concern_disks(client: str) -> None:
    for line in LINES[client]:
        found = recognize(line)
        about_data = found is None or found.message.kind is Subject.DISK
        assert mentions_disks(line) or not about_data, line


def test_a_partition_in_a_line_is_its_place() -> None:
    for line in (line for lines in LINES.values() for line in lines):
        found = recognize(line)
        if found is not None and "orders" in line:
            assert found.location.partition == "orders-3", line
