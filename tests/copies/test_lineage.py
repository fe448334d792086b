"""Where two logs part, and where a follower truncates (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

import random

import pytest

from kdump.copies.lineage import LeaderEpochs, Truncation, shared_end, truncation
from kdump.format.checkpoint import EpochEntry
from support.epoch_logs import Log, common, histories


def epochs_of(log: Log, start: int = 0) -> LeaderEpochs:
    firsts = [offset for offset in range(len(log)) if offset == 0 or log[offset] != log[offset - 1]]
    entries = [EpochEntry(log[offset], offset) for offset in firsts]
    return LeaderEpochs.of(entries, start, len(log))


@pytest.mark.parametrize("seed", range(8))
def test_followers_truncate_to_the_beginning_that_they_share(seed: int) -> None:
    rng = random.Random(seed)
    cut = 0
    for _ in range(500):
        logs = histories(rng, range(rng.randrange(2, 12)), least=0)
        for follower in logs:
            for leader in logs:
                shared = common(follower, leader)
                expected = Truncation(shared) if shared < len(follower) else None
                found = truncation(epochs_of(follower), epochs_of(leader))
                assert found == expected, (follower, leader)
                assert shared_end(epochs_of(follower), epochs_of(leader)) == shared
                cut += expected is not None
    assert cut > 500


def test_a_follower_asks_again_for_epochs_that_the_leader_does_not_know() -> None:
    """KIP-279: after two unclean elections; each answer names an epoch that the other lacks."""
    leader = epochs_of([1, 1, 2, 2, 4, 4])
    follower = epochs_of([1, 1, 1, 3, 3, 3, 5])
    assert truncation(follower, leader) == Truncation(2)
    assert truncation(leader, follower) == Truncation(2)


@pytest.mark.parametrize(
    ("follower", "start", "leader", "leader_start", "expected"),
    [
        pytest.param([1] * 4, 0, [1] * 9, 6, Truncation(6, restart=True), id="behind the start"),
        pytest.param([1] * 6, 0, [1] * 9, 6, None, id="ends at the leader's start"),
        pytest.param([1] * 8, 5, [1] * 9, 0, None, id="its own start is later"),
        pytest.param([1] * 3 + [2] * 6, 0, [1] * 3 + [3] * 9, 6, Truncation(6),
                     id="parted before the leader's start"),
        pytest.param([], 0, [1] * 3, 0, None, id="empty"),
        pytest.param([1] * 3, 0, [], 0, Truncation(0), id="an empty leader"),
    ],
)  # fmt: skip
def test_logs_that_begin_later(
    follower: Log, start: int, leader: Log, leader_start: int, expected: Truncation | None
) -> None:
    assert truncation(epochs_of(follower, start), epochs_of(leader, leader_start)) == expected


def test_without_epochs_a_follower_truncates_to_its_high_watermark() -> None:
    old = LeaderEpochs((), 0, 9)
    assert truncation(old, epochs_of([1] * 9), high_watermark=7) == Truncation(7)
    assert truncation(old, epochs_of([1] * 9), high_watermark=9) is None


def test_entries_of_a_file_become_those_of_a_broker() -> None:
    """An entry beyond the end is dropped, one before the start begins there, others rise."""
    entries = [EpochEntry(1, 0), EpochEntry(2, 4), EpochEntry(3, 6), EpochEntry(7, 20)]
    assert LeaderEpochs.of(entries, 5, 20).entries == (EpochEntry(2, 5), EpochEntry(3, 6))
    assert LeaderEpochs.of(entries, 0, 0).entries == ()
    later = [*entries[:3], EpochEntry(2, 5), EpochEntry(4, 8)]
    assert LeaderEpochs.of(later, 0, 9).entries == (
        EpochEntry(1, 0),
        EpochEntry(2, 5),
        EpochEntry(4, 8),
    )
    epochs = LeaderEpochs.of(later, 0, 9)
    assert [epochs.epoch_at(offset) for offset in (0, 4, 5, 8, 9)] == [1, 1, 2, 4, None]
