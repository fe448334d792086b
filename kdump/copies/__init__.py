"""Copies of partitions on several brokers: what they share, and where they differ.

lineage  Leader epochs side by side: where two logs part, and where a follower truncates its own.
"""
