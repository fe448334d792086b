"""Nodes of real brokers without their metadata log, beside the forecast."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.controllers import NODES, Controllers
from brokers.replicas import CONTROLLER, Replicas
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA

pytestmark = [pytest.mark.broker, pytest.mark.slow]

#: The partition whose topic was deleted while broker 1 was down.
RECREATED = {"recreated-0"}
ONLY, FETCHED = "metadata-log-missing-only", "metadata-log-missing"


def codes(*arguments: str | Path) -> list[str]:
    """The findings of metadata logs, which ``verify`` and ``next-start`` both have."""
    started, verified = kdump("next-start", *arguments), kdump("verify", "--quick", *arguments)
    found, again = (
        [each["code"] for each in ran.of("finding") if each["code"] in (ONLY, FETCHED)]
        for ran in (started, verified)
    )
    assert found == again
    assert started.code == verified.code == (4 if ONLY in found else 0)
    return found


def partitions(data: Path) -> set[str]:
    return {path.parent.name for path in data.glob("*-*/*.log")} - {METADATA}


def strays(data: Path) -> set[str]:
    return {path.name.rpartition(".")[0] for path in data.glob("*-stray")}


@pytest.mark.parametrize(
    ("version", "fixture", "config"),
    [
        ("4.3.1", "4.3.1/clean", ""),
        pytest.param("3.9.1", "3.9.1/clean", "", marks=pytest.mark.nightly),
        pytest.param("4.4.0", "4.4.0/clean", "", marks=pytest.mark.nightly),
        # A directory of a cluster with ZooKeeper.
        ("4.3.1", "2.8.2/clean", "process.roles=broker,controller"),
        pytest.param(
            "3.9.1", "2.8.2/clean", "process.roles=broker,controller", marks=pytest.mark.nightly
        ),
    ],
)
def test_the_only_voter_begins_an_empty_log(
    version: str, fixture: str, config: str, tmp_path: Path
) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    shutil.rmtree(data / METADATA, ignore_errors=True)
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={data}\n{config}\n")
    assert codes("--config", file) == [ONLY]
    known = partitions(data)
    with Broker(version, data, {"log.cleaner.enable": "false", **QUICK_RESTART}) as broker:
        assert any("marked stray and renamed to" in line for line in broker.log_lines())
    assert strays(data) == known


def test_a_broker_fetches_the_log_from_a_controller_that_has_it(tmp_path: Path) -> None:
    top = copy_fixture("4.3.1/replicas", tmp_path / "nodes")
    base = tmp_path / "base"
    data, controller = top / "1", top / "controller"
    shutil.rmtree(data / METADATA)
    known = partitions(data)
    with Replicas("4.3.1", top) as replicas:
        replicas.copy(base)
        # The controller has it.
        assert codes(data, controller) == [FETCHED]
        replicas.start(1)
        replicas.stop(1, CONTROLLER)
        assert strays(data) == RECREATED
        assert codes(data, controller) == []

        # The controller has lost it too.
        replicas.replace(base)
        shutil.rmtree(controller / METADATA)
        assert codes(data, controller) == [ONLY]
        replicas.start(1)
        replicas.stop(1, CONTROLLER)
        assert strays(data) == known

        # The advice: a copy of another broker's log.
        replicas.replace(base)
        shutil.rmtree(controller / METADATA)
        shutil.copytree(top / "2" / METADATA, controller / METADATA)
        (controller / METADATA / "quorum-state").unlink()
        assert codes(data, controller) == [FETCHED]
        replicas.start(1, 2)
        replicas.stop(1, 2, CONTROLLER)
        assert strays(data) == RECREATED
        assert strays(top / "2") <= RECREATED


def lose(controllers: Controllers, nodes: Sequence[int]) -> None:
    for node in nodes:
        for path in (controllers.directory(node) / METADATA).iterdir():
            if path.name != "quorum-state":
                path.unlink()


@pytest.mark.nightly
def test_a_majority_of_voters_without_the_log_elects_a_leader_with_an_empty_one(
    tmp_path: Path,
) -> None:
    with Controllers("4.3.1", tmp_path / "data") as controllers:
        controllers.format()
        assert controllers.start() == {}
        assert controllers.wait()
        controllers.alter_configs({"num.io.threads": "2"})
        controllers.kill()
        shutil.copytree(tmp_path / "data", tmp_path / "base")
        paths = [controllers.directory(node) for node in NODES]
        assert codes(*paths) == []

        lose(controllers, [1])
        assert codes(*paths) == [FETCHED]
        controllers.replace(tmp_path / "base")
        lose(controllers, [1])
        assert controllers.start() == {}
        assert all(each.start_offset > 0 for each in controllers.wait())
        controllers.kill()

        controllers.replace(tmp_path / "base")
        lose(controllers, [1, 2])
        assert codes(*paths) == [ONLY, ONLY]
        assert controllers.start([1, 2]) == {}
        (first, *_) = controllers.wait()
        assert (first.node in (1, 2), first.start_offset) == (True, 0)
