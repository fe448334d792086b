"""The offsets that two copies share, beside what a follower cuts by the rules of KIP-595."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kdump.quorum.batches import MetadataBatches
from kdump.quorum.lineage import different_content, losses, shared_end
from kdump.quorum.replica import MetadataReplica
from support.epoch_logs import Log, common, histories


def replica(log: Log, node: int = 1) -> MetadataReplica:
    """A copy with a batch for each record."""
    batches = MetadataBatches()
    for offset, epoch in enumerate(log):
        batches.bases.append(offset)
        batches.lasts.append(offset)
        batches.epochs.append(epoch)
        batches.crcs.append(hash((offset, epoch)) & 0xFFFF)
        batches.counts.append(1)
        batches.changes.append(offset % 2)
        batches.segments.append(0)
        batches.positions.append(100 * offset)
    path = Path(str(node))
    return MetadataReplica(path, path, None, None, (), None, None, (), (), batches, 0, (), (), ())


def histories_of(seed: int) -> list[Log]:
    """The logs of a seed."""
    rng = random.Random(seed)
    return histories(rng, range(1, rng.randrange(2, 9)), least=1)


def end_for_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """The epoch that is found for one that is asked for, and its end (``endOffsetForEpoch``)."""
    last = log[-1] if log else 0
    later = [offset for offset, each in enumerate(log) if each > epoch]
    if epoch == last or not later:
        return last, len(log)
    floor = [each for each in log if each <= epoch]
    return (max(floor) if floor else epoch), later[0]


def followed(leader: Log, follower: Log) -> int:
    """The offset to which a follower cuts its log, fetch by fetch."""
    log = list(follower)
    while log:
        epoch, end = end_for_epoch(leader, log[-1])
        if epoch == log[-1] and end >= len(log):
            break
        found, own_end = end_for_epoch(log, epoch)
        del log[min(own_end, end) if found == epoch else own_end :]
    return len(log)


@pytest.mark.parametrize("seed", range(300))
def test_the_shared_end_is_where_a_follower_cuts(seed: int) -> None:
    logs = histories_of(seed)
    copies = [replica(log, node) for node, log in enumerate(logs, 1)]
    for one, log in zip(copies, logs, strict=True):
        for other, beside in zip(copies, logs, strict=True):
            shared = shared_end(one, other)
            assert shared == common(log, beside)
            assert different_content(one, other) is None
            if one is not other and (one.end >= other.end):  # it can lead the other
                assert shared == followed(log, beside)
            lost = losses(one, other)
            assert sum(loss.records for loss in lost) == len(beside) - shared
            assert [(loss.first, loss.end) for loss in lost] == (
                [(shared, len(beside))] if shared < len(beside) else []
            )


def test_histories_diverge() -> None:
    """What the test above draws has logs that are cut, not only shorter ones."""
    drawn = [histories_of(seed) for seed in range(300)]
    cut = [
        common(one, other) < min(len(one), len(other))
        for logs in drawn
        for one in logs
        for other in logs
    ]
    assert sum(cut) > 100


def test_equal_epochs_with_other_content_are_found() -> None:
    one, other = replica([1, 1, 2, 2]), replica([1, 1, 2, 2])
    other.log.crcs[2] += 1
    assert shared_end(one, other) == 4
    assert different_content(one, other) == 2
