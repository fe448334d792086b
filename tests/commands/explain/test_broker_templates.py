"""How much of what brokers of each release log about their log directories ``explain`` answers.

The list of messages is taken from the constants of the classes; which of them concern a log
directory is told by class and method, whatever ``explain`` knows.
"""

from __future__ import annotations

import re

import pytest

from brokers.jars import IS_REPLACED
from commands.explain.class_messages import ClassMessage
from commands.explain.log_directory_messages import (
    RELEASES,
    lines_of,
    make_list,
    read_jars,
    read_list,
)
from kdump.audit.checks import metadata
from kdump.commands.explain.broker_log.message import Subject
from kdump.commands.explain.broker_log.table import mentions_disks, recognize

SHARE = 0.95
#: What applies the records of the metadata log, in controllers and in all nodes.
REPLAYS = re.compile(
    r"(\w+ControlManager|\w+Delta|QuorumController)\.(replay\w*|apply|getBrokerOr\w+)|AclCache\.\w+|"
    r"BrokersTo\w+\.\w+"
)


def is_answered(message: ClassMessage) -> bool:
    return any(recognize(line) is not None for line in lines_of(message))


def test_most_of_what_each_release_logs_about_log_directories_is_answered() -> None:
    listed = read_list()
    silent = {message for message in listed if not is_answered(message)}
    for release in RELEASES:
        of_release = {message for message, releases in listed.items() if release in releases}
        answered = len(of_release - silent)
        print(f"{release}: {answered} of {len(of_release)} answered")
        assert answered >= SHARE * len(of_release), sorted(silent & of_release)
    for message in silent:
        assert mentions_disks(next(lines_of(message))), message


def test_what_the_replay_of_metadata_throws_leads_to_the_findings_about_it() -> None:
    for message in filter(lambda message: REPLAYS.fullmatch(message.where), read_list()):
        found = next(filter(None, map(recognize, lines_of(message))))
        assert found.message.kind is Subject.DISK, message
        assert found.codes[0] in (
            metadata.METADATA_REPLAY_STOPS,
            metadata.METADATA_UNREPLAYABLE,
            metadata.FEATURE_UNSUPPORTED,
        ), message


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.skipif(IS_REPLACED, reason="compares releases that it names")
def test_the_list_is_that_of_the_jars() -> None:
    assert make_list() == read_list()


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.parametrize("release", RELEASES)
def test_messages_of_all_classes_are_counted(release: str) -> None:
    counts = {"answered": 0, "may concern disks": 0, "not about disks": 0}
    for message in read_jars(release):
        if is_answered(message):
            counts["answered"] += 1
        elif mentions_disks(next(lines_of(message))):
            counts["may concern disks"] += 1
        else:
            counts["not about disks"] += 1
    print(release, counts)
    assert counts["answered"] > 100 or release == "0.8.2.2"
