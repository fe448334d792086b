"""Future logs in two directories of a node: what a start makes of each, and the records that go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support import forge, pipeline
from support.commands import kdump
from support.forge import TOPIC_ID
from support.future_logs import FUTURE, TOPIC, log, node
from support.recipes_directory import DIRECTORY_ID, OTHER_ID


def found(*paths: Path) -> dict[str, str]:
    return {
        finding.code.name: finding.path.name
        for finding in pipeline.judge(*paths, config={})
        if finding.code.name.startswith("future-")
    }


def test_a_move_that_the_cluster_knows_ends_at_the_start(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    assert found(first, second) == {"future-replaces": f"{TOPIC}-0"}
    ran = kdump("next-start", first, second)
    assert ran.code == 0


@pytest.mark.parametrize("mode", [("next-start",), ("verify",), ("verify", "--quick")])
@pytest.mark.parametrize("clean", [True, False])
def test_a_shorter_future_log_takes_records_with_it(
    mode: Sequence[str], clean: bool, tmp_path: Path
) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE, whole=False)
    if not clean:
        for path in (first, second):
            (path / ".kafka_cleanshutdown").unlink()
    assert found(first, second) == {"future-shorter": f"{TOPIC}-0"}
    ran = kdump(*mode, first, second)
    lost = [line["lost"] for line in ran.of("forecast") if line["lost"]["sound"]]
    assert ran.code == 4
    assert [(each["sound"], each["first_offset"], each["last_offset"]) for each in lost] == [
        (100, 100, 199)
    ]


def test_without_its_current_log_a_future_log_is_promoted_or_emptied(tmp_path: Path) -> None:
    first, second = node(tmp_path, OTHER_ID)
    log(second, FUTURE)
    assert found(first, second) == {}
    (second / FUTURE).rename(first / FUTURE)
    assert found(first, second) == {"future-alone": FUTURE}
    assert kdump("next-start", first, second).code == 4
    # The assigned directory is not in sight: the current log may be there.
    (second / "meta.properties").unlink()
    assert "future-alone" not in {line.code.name for line in pipeline.judge(first)}


@pytest.mark.parametrize("named", [True, False])
def test_a_future_log_of_nothing_that_the_node_has_is_a_stray(named: bool, tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, nodes=(1,) if not named else (2, 3))
    log(second, FUTURE, named=named)
    code = "future-stray" if named else "future-alone"
    assert found(first, second) == {code: FUTURE}


def test_a_current_log_that_is_set_aside_makes_room(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(first, f"{TOPIC}-0", named=False)
    log(first, FUTURE)
    assert found(first, second) == {}
    # With a topic id it would stay.
    (first / f"{TOPIC}-0" / "partition.metadata").write_bytes(forge.partition_metadata(TOPIC_ID))
    assert found(first, second) == {"future-beside-current": FUTURE}
