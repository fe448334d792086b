"""A metadata log that is gone: whether the quorum has it, by configs and other directories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.findings import Finding
from kdump.cli.main import main
from kdump.storage.liveness import BrokerState
from kdump.ui import exits
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.pipeline import judge
from support.recipes_directory import CLUSTER_ID, META

COMMANDS = pytest.mark.parametrize("command", ["verify", "next-start"])
ONLY, FETCHED = "metadata-log-missing-only", "metadata-log-missing"


def lost(version: str, tmp_path: Path) -> Path:
    """The log directory of a node of this release whose metadata log is gone."""
    path = copy_fixture(f"{version}/clean", tmp_path / "data")
    shutil.rmtree(path / METADATA)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return lost("4.3.1", tmp_path)


def of_metadata(found: Sequence[Finding]) -> list[str]:
    return [each.code.name for each in found if each.code.name in (ONLY, FETCHED)]


CONFIGS = {
    "process.roles=broker,controller\ncontroller.quorum.voters=1@a:1": ONLY,
    "process.roles=broker,controller\ncontroller.quorum.voters=1@a:1,2@b:1": FETCHED,
    "process.roles=broker\ncontroller.quorum.voters=10@a:1": FETCHED,
    "process.roles=broker\ncontroller.quorum.bootstrap.servers=a:1": FETCHED,
    "process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=a:1": ONLY,
    "": ONLY,
}


@pytest.mark.parametrize(("config", "code"), CONFIGS.items())
def test_configs_say_whether_the_quorum_has_the_log(data: Path, config: str, code: str) -> None:
    pairs = dict(line.split("=", 1) for line in config.splitlines())
    assert of_metadata(judge(data, config={"log.dirs": str(data), **pairs})) == [code]


@COMMANDS
def test_the_first_line_says_it_and_no_plan_ends_in_a_start(
    data: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(data)]) == exits.PROBLEMS
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(
        "DO NOT START If the broker starts now, it renames all partitions to -stray"
    )
    assert ONLY in text
    assert "then start the broker" not in text


@COMMANDS
def test_a_node_that_fetches_the_log_again_is_a_warning(
    data: Path, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\nprocess.roles=broker\n")
    assert main([command, "--config", str(config)]) == exits.OK
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("WARN")
    assert "from a majority that has to run first" in text


def test_beside_a_running_broker_the_log_may_be_anywhere(data: Path) -> None:
    assert of_metadata(judge(data, state=BrokerState.LIVE)) == []


@COMMANDS
def test_a_log_in_a_directory_that_the_configuration_names_is_there(
    data: Path, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    source = copy_fixture("4.3.1/clean", tmp_path / "source")
    shutil.copytree(source / METADATA, other / METADATA)
    meta = (data / "meta.properties").read_text()
    (other / "meta.properties").write_text(meta.replace("03F0t", "03F0u"))
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={other},{data}\nnode.id=1\nprocess.roles=broker,controller\n")
    assert main([command, "--config", str(config), str(data)]) == exits.OK
    assert main([command, "--config", str(config)]) == exits.OK
    assert main([command, str(data), str(other)]) == exits.OK
    capsys.readouterr()
    assert main([command, str(data)]) == exits.PROBLEMS


def test_other_directories_show_the_voters(tmp_path: Path) -> None:
    """A broker without its log, beside its controller, which has it, and then has not."""
    nodes = copy_fixture("4.3.1/replicas", tmp_path / "nodes")
    shutil.rmtree(nodes / "1" / METADATA)
    assert of_metadata(judge(nodes / "1")) == [ONLY]
    assert of_metadata(judge(nodes / "1", nodes / "controller")) == [FETCHED]
    for path in (nodes / "controller" / METADATA).iterdir():
        if path.name != "quorum-state":
            path.unlink()
    assert of_metadata(judge(nodes / "1", nodes / "controller")) == [ONLY, ONLY]
    # The controller by itself has no partitions: quorum-state shows that it had a log.
    assert of_metadata(judge(nodes / "controller")) == [ONLY]


def state(*voters: int, leader: int = 2, epoch: int = 4) -> dict[str, Any]:
    return {
        "clusterId": "",
        "leaderId": leader,
        "leaderEpoch": epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }


@pytest.mark.parametrize(("lost", "code"), [((1,), FETCHED), ((1, 2), ONLY), ((1, 2, 3), ONLY)])
def test_a_majority_of_the_voters_has_to_have_the_log(
    tmp_path: Path, lost: tuple[int, ...], code: str
) -> None:
    whole = copy_fixture("4.3.1/replicas", tmp_path / "nodes") / "controller" / METADATA
    paths = []
    for node in (1, 2, 3):
        path = tmp_path / str(node)
        path.mkdir()
        text = META["meta.properties"].decode().replace("node.id=1", f"node.id={node}")
        (path / "meta.properties").write_text(text.replace("2Ug", f"{node}Ug"))
        if node in lost:
            (path / METADATA).mkdir()
        else:
            shutil.copytree(whole, path / METADATA)
        (path / METADATA / "quorum-state").write_text(json.dumps(state(1, 2, 3)))
        paths.append(path)
    assert CLUSTER_ID in (paths[0] / "meta.properties").read_text()
    assert of_metadata(judge(*paths)) == [code] * len(lost)


def test_a_node_that_was_never_started_has_no_log(tmp_path: Path) -> None:
    nodes = copy_fixture("4.3.1/replicas", tmp_path / "nodes")
    controller = nodes / "controller"
    shutil.rmtree(controller / METADATA)
    assert of_metadata(judge(controller)) == []
    (controller / METADATA).mkdir()
    (controller / METADATA / "quorum-state").write_text(json.dumps(state(1, epoch=0)))
    assert of_metadata(judge(controller)) == []


def test_a_node_that_4_4_formatted_anew_has_lost_its_log(tmp_path: Path) -> None:
    """Its metadata log is a snapshot at offset 0 with what formatting writes."""
    data = copy_fixture("4.4.0/clean", tmp_path / "data")
    for path in (data / METADATA).iterdir():
        if path.name != f"{0:020d}-{0:010d}.checkpoint":
            path.unlink()
    assert of_metadata(judge(data)) == [ONLY]


def test_a_directory_of_zookeeper_under_a_configuration_of_kraft(tmp_path: Path) -> None:
    data = copy_fixture("2.8.2/clean", tmp_path / "data")
    config = {"log.dirs": str(data), "process.roles": "broker,controller"}
    single = {"controller.quorum.voters": "1@a:1"}
    assert of_metadata(judge(data, config=config | single)) == [ONLY]
    assert of_metadata(judge(data, config={"log.dirs": str(data)})) == []
    assert of_metadata(judge(data)) == []


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_partitions_alone_are_no_node_that_lost_its_log(version: str, tmp_path: Path) -> None:
    """Up to 4.3, formatting writes bootstrap.checkpoint into each directory; checkpoints show one
    of 4.4. A copy of partitions has none of these.
    """
    data = lost(version, tmp_path)
    assert of_metadata(judge(data)) == [ONLY]
    for path in data.glob("*checkpoint"):
        path.unlink()
    assert of_metadata(judge(data)) == []
    single = {"process.roles": "broker,controller", "controller.quorum.voters": "1@a:1"}
    assert of_metadata(judge(data, config={"log.dirs": str(data), **single})) == [ONLY]


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_a_part_of_a_directory_with_its_checkpoints_is_no_lost_log(
    version: str, tmp_path: Path
) -> None:
    """The checkpoints name 21 partitions, of which 3 are here."""
    data = lost(version, tmp_path)
    (data / "bootstrap.checkpoint").unlink(missing_ok=True)
    assert of_metadata(judge(data)) == [ONLY]
    for path in data.iterdir():
        if path.is_dir() and path.name not in ("codec-zstd-0", "groups-0", "transactions-0"):
            shutil.rmtree(path)
    assert of_metadata(judge(data)) == []
