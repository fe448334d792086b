"""The plans of ``verify`` and ``scrub``: what they say of other copies, and those of manifests."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kdump.ui import exits
from support import forge, forge_metadata
from support.all_recipes import RECIPES
from support.commands import repair
from support.crashing.running import run
from support.damaged import Recipe
from support.fixtures_loader import REPLICAS, copy_fixture
from support.object_stores import served

METADATA = "__cluster_metadata-0"
CRC = next(each for each in RECIPES if each.name == "crc-sealed")
HOLE = next(each for each in RECIPES if each.name == "hole-unknown-jump")
#: The commands that read a manifest.
READ = ("verify", "next-start", "compare")


def plan_of(*arguments: str | Path) -> tuple[str, list[list[str]]]:
    """The plan at the end of a report, on one line, and its commands."""
    _, _, plan = run([*map(str, arguments)]).out.partition("\nplan ")
    lines = [line.strip() for line in plan.splitlines()]
    return " ".join(plan.split()), [
        shlex.split(line) for line in lines if line.startswith(("kdump ", "kafka-"))
    ]


def broker(top: Path, recipe: Recipe, nodes: list[int], in_sync: list[int]) -> Path:
    """A log directory with one damaged partition, and the metadata log of a cluster."""
    top.mkdir(exist_ok=True)
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    partition = recipe.write(top)
    (top / METADATA).mkdir()
    values = [
        forge_metadata.topic(recipe.name, forge.TOPIC_ID),
        forge_metadata.partition(forge.TOPIC_ID, 0, nodes, in_sync=in_sync),
    ]
    (top / forge_metadata.segment_name()).write_bytes(forge_metadata.log(values))
    return partition


@pytest.mark.parametrize("recipe", [CRC, HOLE], ids=lambda each: each.name)
def test_a_replica_in_sync_is_started_first_and_heals(recipe: Recipe, tmp_path: Path) -> None:
    partition = broker(tmp_path, recipe, [1, 2, 3], [3])
    text, commands = plan_of("verify", tmp_path)
    assert text.startswith(f"1 start node 3 first: in sync for {partition.name}, by the metadata")
    assert ["kdump", "heal", str(partition), "--from", "COPY"] in commands
    assert not any(words[1] == "compare" for words in commands)
    assert "COPY is its directory on another node, copied here" in text


def test_a_replica_not_in_sync_is_compared_first(tmp_path: Path) -> None:
    partition = broker(tmp_path, CRC, [1, 2, 3], [1])
    text, commands = plan_of("verify", tmp_path)
    assert commands[:3] == [
        ["kdump", "compare", str(partition), "COPY"],
        ["kdump", "heal", str(partition), "--from", "COPY"],
        ["kdump", "salvage", str(partition), "--output", "DIR"],
    ]
    assert f"{partition.name}: if no other replica has its records, copy its valid batches" in text


@pytest.mark.parametrize(
    ("nodes", "said"),
    [([1, 2], "without another replica no command repairs it"), ([1], ": no command repairs it")],
)
def test_whether_a_command_repairs_depends_on_replicas(
    nodes: list[int], said: str, tmp_path: Path
) -> None:
    partition = broker(tmp_path, HOLE, nodes, [1])
    text, commands = plan_of("verify", tmp_path)
    assert said in text
    assert (["kdump", "heal", str(partition), "--from", "COPY"] in commands) == (len(nodes) > 1)


@pytest.mark.parametrize("command", ["verify", "scrub"])
def test_copies_at_hand_are_named_and_heal(command: str, tmp_path: Path) -> None:
    """The commands of the plan, in their order."""
    top = copy_fixture(REPLICAS[0], tmp_path / "nodes")
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    state = ("--state", tmp_path / "state") if command == "scrub" else ()
    text, commands = plan_of(command, *state, *(top / node for node in "123"))
    paths = [str(top / node / "behind-0") for node in "213"]
    assert commands[:2] == [
        ["kdump", "compare", *paths],
        ["kdump", "heal", paths[0], "--from", paths[1], "--from", paths[2]],
    ]
    assert "COPY" not in text
    assert run(commands[0][1:]).code == exits.PROBLEMS
    assert repair(*commands[1][1:]).code == exits.OK
    assert run(["verify", paths[0]]).code == exits.OK


# --- one partition


@pytest.mark.parametrize(
    ("nodes", "in_sync", "said"),
    [
        ([1, 2, 3], [3], "choose node 3 is in sync: start its broker first"),
        ([1, 2, 3], [2, 3], "choose nodes 2, 3 are in sync: start one first"),
        ([1, 2], [1], "choose node 2 held a replica, not in sync by the metadata log"),
        ([1], [1], "choose no other replica, by the metadata log"),
    ],
)
def test_the_choices_of_a_partition_name_the_replicas(
    nodes: list[int], in_sync: list[int], said: str, tmp_path: Path
) -> None:
    partition = broker(tmp_path, CRC, nodes, in_sync)
    words = run(["verify", str(partition)]).out.split()
    text = " ".join(words)
    assert said in text
    healed = f"kdump heal {partition} --from COPY"
    assert (healed in text) == (len(nodes) > 1)


# --- object stores


@pytest.mark.slow
def test_plans_of_object_stores_name_a_copy_on_this_machine(tmp_path: Path) -> None:
    """The commands run on that copy as they stand, from the current directory."""
    partition = broker(tmp_path / "data", CRC, [1, 2], [1])
    with served() as server:
        address = server.bucket("bucket").upload(tmp_path / "data", "srv/data")
        text, commands = plan_of("verify", address)
        single = " ".join(run(["verify", address.replace("?", f"/{CRC.name}-0?")]).out.split())
    assert text.startswith("1 copy s3:")
    assert "to bucket/srv/data: no command changes an object store" in text
    changing = [words for words in commands if words[1] not in (*READ, "explain")]
    assert {words[1] for words in changing} == {"heal", "salvage"}
    assert {words[2] for words in changing} == {f"bucket/srv/data/{partition.name}"}
    assert commands[-1] == ["kdump", "verify", "bucket/srv/data"]
    assert f"to bucket/srv/data/{partition.name}: no command changes an object store" in single
    assert f"kdump salvage bucket/srv/data/{partition.name} --output DIR" in single


@pytest.mark.slow
def test_compare_of_object_stores_heals_a_copy_on_this_machine(tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "nodes")
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    with served() as server:
        bucket = server.bucket("bucket")
        whole, short = (bucket.upload(top / node, node) for node in "12")
        words = run(["compare", "--topic", "behind", whole, short]).out.split()
    text = " ".join(words)
    assert "to bucket/2/behind-0: no command changes an object store" in text
    assert "kdump heal bucket/2/behind-0 --from 's3://bucket/1/behind-0?" in text
    assert "kdump compare" in text.partition("kdump heal")[2]


# --- manifests


def test_plans_of_manifests_name_what_runs_there(tmp_path: Path) -> None:
    top = tmp_path / "srv" / "data"
    top.mkdir(parents=True)
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for number, recipe in enumerate(RECIPES):
        if number % 5 == 0:
            recipe.write(top)
    file = tmp_path / "host.kdm"
    assert run(["manifest", str(top), "--to", str(file)]).code == exits.OK
    text, commands = plan_of("verify", file)
    assert text.startswith("1 run these steps on the host of the manifest: it names its paths")
    changing = [words for words in commands if words[1] not in (*READ, "explain")]
    assert {"salvage", "repair"} <= {words[1] for words in changing}
    assert not any(str(file) in word for words in changing for word in words)
    assert all(Path(words[2]).is_relative_to(top) for words in changing)
    assert all(Path(words[2]).exists() for words in changing)
    assert commands[-1] == ["kdump", "verify", str(top)]
    _, here = plan_of("verify", top)
    assert [words for words in here if words[1] not in READ] == [
        words for words in commands if words[1] not in READ
    ]


def test_an_anonymous_manifest_has_a_placeholder(tmp_path: Path) -> None:
    top = tmp_path / "data"
    broker(top, CRC, [1, 2], [1])
    file = tmp_path / "host.kdm"
    assert run(["manifest", str(top), "--anonymous", "--to", str(file)]).code == exits.OK
    _, commands = plan_of("verify", file)
    changing = [words for words in commands if words[1] not in (*READ, "explain")]
    assert changing
    assert {Path(words[2]).parent for words in changing} == {Path("DIRECTORY")}
    assert commands[-1] == ["kdump", "verify", "DIRECTORY"]
