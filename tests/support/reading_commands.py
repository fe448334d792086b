"""Commands that read a log directory and change nothing, by a name each, without the directory."""

from __future__ import annotations

READING = {
    "verify": ["verify"],
    "verify-deep": ["verify", "--deep", "--info", "--progress", "line"],
    "verify-json": ["verify", "--format", "json", "--jobs", "1"],
    "verify-warnings": ["verify", "--fail-on", "warning", "--quiet"],
    "verify-quick": ["verify", "--quick"],
    "next-start": ["next-start"],
    "next-start-scan": ["next-start", "--scan", "--unclean", "--format", "json"],
    "reindex": ["reindex"],
    "reindex-all-json": ["reindex", "--all", "--format", "json"],
    "truncate": ["truncate-to-valid", "--format", "json"],
    "convert": ["convert-v0-v2"],
    "convert-json": ["convert-v0-v2", "--batch-bytes", "0", "--codec", "lz4", "--format", "json"],
    "undo": ["undo"],
    "compare": ["compare", "--all"],
    "compare-json": ["compare", "--format", "json"],
    "groups": ["groups"],
    "groups-json": ["groups", "--format", "json", "--group", "g*"],
    "space": ["space"],
    "space-json": ["space", "--format", "json", "--jobs", "1"],
    "transactions": ["transactions"],
    "transactions-json": ["transactions", "--format", "json", "--hanging"],
    "metadata": ["metadata"],
    "metadata-json": ["metadata", "--format", "json", "--at", "150"],
    "quorum": ["quorum"],
    "quorum-json": ["quorum", "--format", "json"],
    "dump": ["dump"],
    "dump-data": ["dump", "--data"],
    "dump-json": ["dump", "--format", "json", "--records"],
}
