"""The results: verdicts on partitions, losses, forecasts of whole directories.

state            State: how a run came out, as the first word of its report.
loss             lost_now(): finds the records of a partition that consumers cannot read now.
statistics       statistics_of(): the statistics of a partition, and which host has read which of
                 its logs.
remembered       What a run did not read, because an earlier run did and left its evidence in a
                 state.
verdict          The verdict on one partition: findings, losses, coverage, forecast.
cures            cures_of(): the cures of a partition by its verdict, the one that loses least
                 first.
packs            Values that are many and seldom read, held compressed: verdicts, forecasts, listed
                 targets.
next_start       next_start(): derives the forecast of a partition from its verdict.
directory_start  Forecasts of log directories, collected while their partitions arrive.
losses           The losses of a whole run: now, and further ones at the next start.
"""
