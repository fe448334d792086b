"""Names of replicas and nodes, alone and in lists."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.commands.quorum.state import Quorum


def node_text(quorum: Quorum, number: int) -> str:
    """Return a name for a replica: its node, or its place in the report, or both."""
    node = quorum.replicas[number].node_id
    same = sum(replica.node_id == node for replica in quorum.replicas)
    if node is None:
        return f"replica {number + 1}"
    return f"node {node} (replica {number + 1})" if same > 1 else f"node {node}"


def list_text(names: Sequence[str]) -> str:
    """Return names with commas, and "and" before the last."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
