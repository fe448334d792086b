"""``kdump quorum`` on the disks of three real controllers, beside whom they elect when started."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import quorum_disks as disks
from brokers.controllers import NODES, Controllers
from commands import Ran, kdump

pytestmark = pytest.mark.broker

VERSION = "4.3.1"


@pytest.fixture(scope="module", params=["static", "dynamic"])
def quorum(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Controllers, Path]]:
    """Stopped controllers with two leader epochs, and a copy of their disks."""
    top = tmp_path_factory.mktemp("quorum")
    dynamic = request.param == "dynamic"
    with Controllers(VERSION, top / "data", dynamic=dynamic) as controllers:
        controllers.format()
        for number in range(1 if dynamic else 2):
            assert controllers.start() == {}
            controllers.alter_configs({"num.io.threads": f"{number + 2}"})
            time.sleep(2)  # records of an idle leader
            controllers.kill()
        shutil.copytree(top / "data", top / "base")
        yield controllers, top / "base"


def predict(controllers: Controllers) -> Ran:
    return kdump("quorum", *(controllers.directory(node) for node in NODES))


SCENARIOS: Mapping[str, Mapping[int, Callable[[Path], object]]] = {
    "both cut": {1: disks.cut_batches(9), 2: disks.cut_batches(14)},
    "both flipped": {2: disks.flip_byte(8), 3: disks.flip_byte(3)},
    "torn, no quorum-state": {1: disks.tear_batch(6), 3: disks.remove_quorum_state},
    "no quorum-state, no log": {2: disks.remove_quorum_state, 1: disks.remove_log},
    "empty quorum-state, cut": {1: disks.empty_quorum_state, 2: disks.cut_batches(5)},
    "no meta.properties, no log": {3: disks.remove_meta, 2: disks.remove_log},
    "other cluster, flipped": {1: disks.change_cluster, 3: disks.flip_byte(7)},
    "vote for another, cut": {1: disks.vote_for_other_directory, 2: disks.cut_batches(4)},
}
DYNAMIC: Mapping[str, Mapping[int, Callable[[Path], object]]] = {
    "other directory, cut": {2: disks.change_directory_id, 3: disks.cut_batches(5)},
    "other directory, no log": {3: disks.change_directory_id, 1: disks.remove_log},
    "flipped, no quorum-state": {1: disks.flip_byte(4), 3: disks.remove_quorum_state},
}


def scenarios(static: bool) -> Mapping[str, Mapping[int, Callable[[Path], object]]]:
    return SCENARIOS if static else DYNAMIC


@pytest.mark.parametrize("name", [*SCENARIOS, *DYNAMIC])
def test_the_elected_node_is_one_that_was_named(
    name: str, quorum: tuple[Controllers, Path], request: pytest.FixtureRequest
) -> None:
    static = "static" in request.node.name
    if name not in scenarios(static):
        pytest.skip("a scenario of the other kind of voters")
    controllers, base = quorum
    controllers.replace(base)
    for node, damage in scenarios(static)[name].items():
        damage(controllers.directory(node))
    ran = predict(controllers)
    (summary,) = ran.of("summary")
    copies = {node: copy for node, copy in zip(NODES, ran.of("copy"), strict=True)}
    try:
        failed = controllers.start()
        time.sleep(1.5)  # until the others have fetched
        check(controllers, summary, copies, ran, failed)
    finally:
        controllers.kill()
    after = predict(controllers)
    assert not [each for each in after.of("problem") if each["kind"] == "content-differs"]


def check(
    controllers: Controllers,
    summary: dict[str, Any],
    copies: Mapping[int, dict[str, Any]],
    ran: Ran,
    failed: Mapping[int, object],
) -> None:
    assert set(failed) == {node for node, copy in copies.items() if not copy["starts"]}
    elected = controllers.elected()[0]
    print(summary["can_lead"], elected, controllers.truncations(), summary["verdict"])
    assert elected.node in summary["can_lead"]
    assert elected.start_offset == copies[elected.node]["log_end_offset"]
    assert elected.epoch > copies[elected.node]["last_epoch"]
    (leader,) = (each for each in ran.of("leader") if each["node_id"] == elected.node)
    lost = {
        (loss["node_id"], loss["first_offset"])
        for loss in leader["losses"]
        if not loss["cut_at_start"] and copies[loss["node_id"]]["starts"]
        and copies[loss["node_id"]]["cluster_id"] == copies[elected.node]["cluster_id"]
    }
    assert set(controllers.truncations()) == lost
