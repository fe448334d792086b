"""A release of Kafka that no test knows is noticed the night after it is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.jars import RELEASES, ZOOKEEPER_RELEASES, numbers, published
from kdump.ui.version import FORECAST, READ


def test_the_releases_that_are_named_are_those_of_the_tests() -> None:
    newest = ".".join(map(str, max(map(numbers, RELEASES))[:2]))
    oldest, oldest_loader = (min(each, key=numbers) for each in (ZOOKEEPER_RELEASES, RELEASES))
    assert f"{oldest[:3]} to {newest}" == READ
    assert f"{oldest_loader[:3]} to {newest}" == FORECAST
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert f"of Kafka {READ}, and" in readme
    assert f"forecasts startups of {FORECAST}." in readme


@pytest.mark.broker
@pytest.mark.nightly
def test_no_release_is_newer_than_those_of_the_tests(tmp_path: Path) -> None:
    found = published(tmp_path)
    assert set(found) >= set(RELEASES)
    known = max(map(numbers, RELEASES))
    assert [version for version in found if numbers(version) > known] == []
