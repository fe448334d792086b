"""Logs as the leader epoch of each offset, from offset 0 on."""

from __future__ import annotations

import random

Log = list[int]


def common(log: Log, other: Log) -> int:
    """The length of the beginning that two logs share."""
    pairs = enumerate(zip(log, other, strict=False))
    return next((offset for offset, (a, b) in pairs if a != b), min(len(log), len(other)))


def histories(rng: random.Random, epochs: range, *, least: int) -> list[Log]:
    """Three logs as leaders write them: followers first cut what their leader does not have.

    The leader of each of ``epochs`` is any of them, also after an unclean election, and writes at
    ``least`` so many records.
    """
    logs: list[Log] = [[], [], []]
    for epoch in epochs:
        leader = rng.randrange(3)
        logs[leader] += [epoch] * rng.randrange(least, 5)
        for follower in range(3):
            if follower != leader and rng.random() < 0.6:
                shared = common(logs[leader], logs[follower])
                fetched = rng.randrange(shared, len(logs[leader]) + 1)
                if fetched > shared or rng.random() < 0.5:
                    logs[follower] = logs[leader][:fetched]
    return logs
