"""The results: verdicts of partitions, losses, forecasts of whole directories.

loss             lost_now(): the records of a partition that consumers cannot get today.
verdict          The verdict on one partition: findings, losses, coverage, forecast.
next_start       next_start(): the forecast of a partition from its verdict.
directory_start  Forecasts of log directories, collected while their partitions arrive.
losses           Losses of a whole run: now, and further at the next start.
"""
