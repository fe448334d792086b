"""Corrupt batches dropped from the logs of a partition; the valid ones stay.

steps  The order of the steps of a plan to drop corrupt batches.
plan   plan_drop(): logs without their corrupt batches.
"""
