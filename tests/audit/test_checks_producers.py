"""The checks of producers, transactions and leader epochs, over recipes and over every fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kdump.audit.checks.batches import check_segments, check_sequence
from kdump.audit.checks.epochs import check_epoch_checkpoint, check_epoch_falls, check_epoch_range
from kdump.audit.checks.partition_files import check_epoch_end
from kdump.audit.checks.producers import check_sequences, check_snapshots
from kdump.audit.checks.transactions import (
    check_hanging,
    check_horizons,
    check_lost_ends,
    check_transactions,
)
from kdump.audit.checks.txn_indexes import check_aborts, check_stable_offsets, check_txn_index_files
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import read_directory
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.format.index import TransactionIndex
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.paths import as_local
from support import forge
from support.fixtures_loader import FIXTURES, copy_fixture, few_first, topic_configs
from support.forge import TIMESTAMP
from support.pipeline import evidence, judge
from support.recipes_producers import RECIPES, History, entry

NOW_MS = TIMESTAMP + 3_600_000


def written(given: Evidence, at_ms: int) -> Evidence:
    """The same with segments that were last written at ``at_ms``."""
    surveys = []
    for survey in given.surveys:
        assert survey.identity is not None
        surveys.append(
            replace(survey, identity=replace(survey.identity, mtime_ns=at_ms * 1_000_000))
        )
    return replace(given, surveys=tuple(surveys))


def running(given: Evidence) -> Evidence:
    """The same beside a broker, whose clock shows the time."""
    return replace(given, target=replace(given.target, stopped=False))


def hanging(given: Evidence) -> Iterator[Finding]:
    """What ``check_hanging`` says beside a broker that has just written the segments."""
    return check_hanging(running(written(given, given.now_ms)))


CHECKS: Mapping[str, Callable[[Evidence], Iterator[Finding]]] = {
    "transactions": check_transactions,
    "lost ends": check_lost_ends,
    "hanging": hanging,
    "horizons": check_horizons,
    "epoch falls": check_epoch_falls,
    "epoch range": check_epoch_range,
    "epoch end": check_epoch_end,
    "epoch checkpoint": check_epoch_checkpoint,
    "txn index files": check_txn_index_files,
    "aborts": check_aborts,
    "stable offsets": check_stable_offsets,
    "snapshots": check_snapshots,
    "sequences": check_sequences,
}


def judging(
    directory: Path,
    *,
    compacted: bool | None,
    stopped: bool = True,
    alone: bool = False,
    now_ms: int = NOW_MS,
) -> Evidence:
    """``alone`` leaves the log directory out of account."""
    top = open_path(directory.parent)
    assert isinstance(top, LogDirectory)
    liveness = Liveness(BrokerState.STOPPED if stopped else BrokerState.LIVE, "")
    around = None if alone else read_directory(top, liveness)
    given = evidence(directory, around, compacted=compacted, live=not stopped, now_ms=now_ms)
    assert given.replay is not None
    return given


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, list[Finding]]]:
    """``findings(name)``: what each check says of a recipe; and ``batches``, of damage."""
    recipes = {recipe.name: recipe for recipe in RECIPES}

    @cache
    def of(name: str) -> dict[str, list[Finding]]:
        recipe = recipes[name]
        directory = recipe.write(tmp_path_factory.mktemp(name))
        given = judging(directory, compacted=recipe.compacted)
        return {
            "batches": [*check_segments(given), *check_sequence(given)],
            **{check: list(run(given)) for check, run in CHECKS.items()},
        }

    return of


Findings = Callable[[str], dict[str, list[Finding]]]


def test_a_log_that_ends_below_its_last_segment_is_compared_with_its_snapshot(
    tmp_path: Path,
) -> None:
    def one(offset: int) -> bytes:
        record = forge.record()
        return forge.batch(offset, [record], producer_id=9, producer_epoch=0, base_sequence=offset)

    directory = forge.write_partition(
        tmp_path, "orders", 0, {0: [one(at) for at in range(10)], 10: [one(at) for at in (3, 4, 5)]}
    )
    (directory / "00000000000000000006.snapshot").write_bytes(forge.snapshot([entry(9, 2, 2)]))
    found = list(check_snapshots(judging(directory, compacted=False)))
    assert [finding.code.name for finding in found] == ["snapshot-disagrees"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_gives_its_findings(recipe: History, findings: Findings) -> None:
    codes = [finding.code.name for found in findings(recipe.name).values() for finding in found]
    assert sorted(codes) == sorted(recipe.expected)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_needed(check: str, findings: Findings) -> None:
    assert any(findings(recipe.name)[check] for recipe in RECIPES if recipe.expected)


def test_names_of_recipes_are_unique() -> None:
    assert len({recipe.name for recipe in RECIPES}) == len(RECIPES)


def only(findings: Findings, name: str) -> Finding:
    (finding,) = [finding for found in findings(name).values() for finding in found]
    return finding


@pytest.mark.parametrize(("recipe", "is_marker"), [("marker-lost", True), ("batch-lost", False)])
def test_a_damaged_marker_is_named_as_one(recipe: str, is_marker: bool, findings: Findings) -> None:
    every = (finding for found in findings(recipe).values() for finding in found)
    (damage,) = (finding for finding in every if finding.code.name == "batch-crc-mismatch")
    assert damage.detail is not None
    assert damage.detail.found.endswith(", in a former transaction marker") is is_marker


def test_a_hanging_transaction_comes_with_the_command_that_aborts_it(findings: Findings) -> None:
    assert only(findings, "hanging").remedy == (
        "kafka-transactions.sh",
        *("--bootstrap-server", "HOST:PORT", "abort", "--topic", "hanging"),
        *("--partition", "0", "--start-offset", "10"),
    )


def test_a_transaction_that_was_just_written_is_open(tmp_path: Path) -> None:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "hanging"]
    given = judging(recipe.write(tmp_path), compacted=False, now_ms=TIMESTAMP + 60_000)
    assert [finding.code.name for finding in hanging(given)] == ["transaction-open"]


def test_old_timestamps_of_a_producer_do_not_make_its_transaction_hang(tmp_path: Path) -> None:
    """A producer may give its records any time: only a broker's clock says when it wrote."""
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "open"]
    given = judging(recipe.write(tmp_path), compacted=False, now_ms=TIMESTAMP + 10**12)
    assert [finding.code.name for finding in hanging(given)] == ["transaction-open"]


def test_a_stopped_broker_lets_a_transaction_hang_that_hung_before(tmp_path: Path) -> None:
    """No later marker has the time: the files that it wrote as it stopped have it."""
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "open"]
    given = judging(recipe.write(tmp_path), compacted=False)
    assert given.target.directory is not None
    directory = replace(given.target.directory, written_ms=NOW_MS)
    given = replace(
        given,
        target=replace(given.target, directory=directory),
        longest_transaction_ms=15 * 60_000,
    )
    for minutes, expected in ((21, "transaction-hanging"), (19, "transaction-open")):
        of_then = written(given, NOW_MS - minutes * 60_000)
        assert of_then.clock().files_ms == NOW_MS
        found = check_hanging(of_then)
        assert [finding.code.name for finding in found] == [expected]


def test_a_segment_without_recent_writes_lets_a_transaction_hang(tmp_path: Path) -> None:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "open"]
    given = judging(recipe.write(tmp_path), compacted=False)
    found = check_hanging(running(written(given, NOW_MS - 21 * 60_000)))
    assert [finding.code.name for finding in found] == ["transaction-late"]


@pytest.mark.parametrize(
    ("longest_minutes", "expected"),
    [(15, "transaction-hanging"), (16, "transaction-open"), (120, "transaction-open")],
)
def test_what_the_brokers_allow_decides_when_a_transaction_hangs(
    longest_minutes: int, expected: str, tmp_path: Path
) -> None:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "open"]
    given = judging(recipe.write(tmp_path), compacted=False)
    given = replace(given, longest_transaction_ms=longest_minutes * 60_000)
    found = check_hanging(running(written(given, NOW_MS - 21 * 60_000 + 1)))
    assert [finding.code.name for finding in found] == [expected]


def test_a_violation_says_where_and_whose(findings: Findings) -> None:
    finding = only(findings, "mixed-later")
    assert finding.path.name == "00000000000000000100.log"
    assert finding.position == 0
    assert finding.offsets is not None
    assert finding.offsets.first == 100
    assert finding.detail is not None
    assert finding.detail.found == "a batch outside of transactions, of producer 7, epoch 0"


def test_a_missing_abort_names_the_file_that_should_be_there(findings: Findings) -> None:
    finding = only(findings, "txnindex-gone")
    assert finding.path.name == "00000000000000000000.txnindex"
    assert str(finding.offsets) == "10..20"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_beside_a_broker_the_small_files_may_be_of_another_moment(
    recipe: History, tmp_path: Path
) -> None:
    """What is sound stays so; of what is damaged less may be reported, never more."""
    given = judging(recipe.write(tmp_path), compacted=recipe.compacted, stopped=False)
    codes = [finding.code.name for run in CHECKS.values() for finding in run(given)]
    stale = {"txnindex-stale": "txnindex-missing-entry", "epochs-missing": "epochs-mismatch"}
    allowed = {*recipe.expected, *(stale.get(code, code) for code in recipe.expected)}
    assert set(codes) <= allowed


@pytest.mark.parametrize("fixture", few_first())
def test_no_false_alarm_on_a_fixture(fixture: str, grown: Callable[[str], Path]) -> None:
    """Whatever is known of the topic, and of the log directory around it."""
    top = open_path(grown(fixture))
    assert isinstance(top, LogDirectory)
    configs = topic_configs(fixture)
    for path in top.partition_paths:
        topic = path.name.rpartition("-")[0]
        policy = configs.get(topic, {}).get("cleanup.policy", "compact")
        for compacted in (None, "compact" in policy):
            for stopped, alone in ((True, False), (False, False), (True, True)):
                given = judging(as_local(path), compacted=compacted, stopped=stopped, alone=alone)
                found = [finding for run in CHECKS.values() for finding in run(given)]
                assert [
                    finding for finding in found if finding.code.severity is not Severity.INFO
                ] == []


@pytest.mark.parametrize("fixture", [name for name in FIXTURES if int(name[0]) > 0])
def test_the_transactions_that_were_left_hanging_are_found(
    fixture: str, grown: Callable[[str], Path]
) -> None:
    found = {}
    for path in sorted(grown(fixture).glob("trans[af]*-?")):
        given = replace(judging(path, compacted=False), longest_transaction_ms=900_000)
        for finding in check_hanging(running(written(given, 0))):
            assert finding.code.name == "transaction-hanging"
            assert finding.offsets is not None
            found[path.name] = finding.offsets.first
    assert found == {"transactions-0": 144, "transfers-1": 57}


def test_of_what_is_being_deleted_no_index_is_missed(tmp_path: Path) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    partition = directory / "transactions-0"
    for index in partition.glob("*.txnindex"):
        index.unlink()
    assert "txnindex-missing-entry" in {finding.code.name for finding in judge(partition)}
    doomed = partition.rename(directory / f"transactions-0.{32 * '0'}-delete")
    assert [
        finding for finding in judge(doomed) if finding.code.severity is not Severity.INFO
    ] == []


@pytest.mark.parametrize(
    ("state", "missed"),
    [(BrokerState.LIVE, False), (BrokerState.STOPPED, True)],
    ids=lambda value: str(value),
)
def test_what_a_broker_has_just_deleted_is_no_abort_that_an_index_misses(
    state: BrokerState, missed: bool, tmp_path: Path
) -> None:
    """Of a segment that the log start lies in, a cleaner drops the entries below that.

    The checkpoint of log starts follows within a minute; leader epochs say it at once.
    """
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "transactions-0"
    first = min(partition.glob("*.txnindex"))
    aborts = TransactionIndex.decode(first.read_bytes()).entries
    end = max(entry.last_offset for entry in aborts) + 1
    first.unlink()
    for start, expected in (
        (end, missed),
        (min(transaction.first_offset for transaction in aborts), True),
    ):
        (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
        found = {finding.code.name for finding in judge(partition, state=state)}
        assert ("txnindex-missing-entry" in found) is expected


@pytest.mark.parametrize(
    ("stopped", "expected"), [(False, []), (True, ["epochs-missing"])], ids=["live", "stopped"]
)
def test_what_a_broker_has_just_deleted_is_no_epoch_that_is_missing(
    stopped: bool, expected: list[str], tmp_path: Path
) -> None:
    """Records were deleted past a change of epoch; the segments and the checkpoint follow."""
    (recipe,) = (recipe for recipe in RECIPES if recipe.name == "epochs-forgotten")
    given = judging(recipe.write(tmp_path), compacted=False, stopped=stopped)
    found = check_epoch_checkpoint(given)
    assert [finding.code.name for finding in found] == expected
