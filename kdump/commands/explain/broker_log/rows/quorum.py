"""Messages about the voters of the metadata quorum, and its states.

Spec: QuorumState, LeaderState and KafkaRaftClient of 2.8 to 4.4, and KafkaConfig's checks of
voters.
"""

from __future__ import annotations

from typing import Final

from kdump.commands.explain.broker_log.message import Subject, answer_alike

_CONFIG: Final = (
    "Compare node.id, process.roles and controller.quorum.voters of all nodes. On the disks of the "
    "controllers, kdump quorum shows which voters each of them knows."
)

ROWS: Final = (
    *answer_alike(
        "A controller and the voter set have different directory ids for it. Its meta.properties "
        "was written again, its log directory was formatted again, or it has the disk of another "
        "node. It does not vote.",
        "On the disks of the controllers, kdump quorum shows the directory.id of each node and of "
        "each voter. If the log directory still has its metadata log, stop that controller and "
        "write the id of the voter into its meta.properties. If it is blank and the quorum has a "
        "leader, run kafka-metadata-quorum.sh remove-controller with the old id, then "
        "add-controller.",
        (
            "oter key for VOTE or BEGIN_QUORUM_EPOCH request didn't match the receiver's",
            "sent a voter key ({}) in the VOTE request that doesn't match",
            "sent a voter key ({}) in the BEGIN_QUORUM_EPOCH request that doesn't match",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "A controller asked for votes and got too few: fewer than a majority of the voters run, "
        "they do not reach each other, or their logs end later. For a moment after a start this "
        "is normal.",
        "Start the other controllers. If no leader is elected, stop them all: from their disks, "
        "kdump quorum says which node can be elected, and which to start first.",
        (
            "Election timed out before receiving sufficient vote responses",
            "Election has timed out, backing off for {}ms before becoming a candidate again",
            "Insufficient remaining votes to become",
            "still catching up because we still don't know the high water mark yet",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The configuration of this node contradicts itself, or the configuration of the other "
        "nodes. The node did not start, or exited.",
        _CONFIG,
        (
            "If process.roles contains just the 'broker' role, the node id {} must not be included",
            "If process.roles contains the 'controller' role, the node id {} must be included",
            "Received error indicating inconsistent voter sets",
            "Missing configuration `node.id` which is required when `process.roles` is defined",
            "You must set `node.id` to the same value as `broker.id`",
            "If using process.roles, either controller.quorum.bootstrap.servers must",
            "was specified more than once.",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "A node that is not, or is no longer, a voter was to take part in an election. Its "
        "node.id, or the directory.id in its meta.properties, is not in the voter set.",
        _CONFIG + " With dynamic voters, a log directory that was formatted anew has another "
        "directory.id: give it the old one, or remove the old voter and add the new one.",
        (
            "and directory id ({}) is not one of the voters {}",
            "since the local broker.id={} is not one of the voters {}",
            "since it is not one of the voters {}",
            "since the local broker.id={} is not a voter",
            "is not among the valid voters",
            "is not a voter in {}",
            "Unknown local replica directory id",
            "Directory id must be known for all of the voters",
            "there is no voter set in the log or checkpoint",
            "Unexpected acknowledgement from non-voter {}",
            "Attempt to grant vote to non-voter {}",
            "Attempt to reject vote to non-voter {}",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "A node received a message of the quorum that contradicts its state, for example because "
        "two nodes have the same node.id, or because a vote was lost with its disk.",
        "Check that each node.id is used once. If the disk of a controller was replaced, kdump "
        "quorum shows from the disks which node can be elected.",
        (
            "Cannot transition to {}",
            "Cannot add voted {}",
            "Cannot become leader without majority votes granted",
            "which is inconsistent with current leader {} and epoch",
            "Detected non-monotonic update of fetch offset from nodeId",
            "Detected non-monotonic update of local end offset",
            "Non-monotonic update to end offset for nodeId",
            "Attempt to overwrite current high watermark {} with unknown value",
            "Non-monotonic update of high watermark attempted",
            "Voter cannot initialize as a Leader",
        ),
        kind=Subject.ELSEWHERE,
        outer=True,
    ),
    *answer_alike(
        "The leader of the quorum sent a snapshot, or a part of one, that this node had not asked "
        "for, or that cannot exist.",
        "Nothing to do if the node continues. If the line recurs, verify __cluster_metadata-0 on "
        "the leader.",
        (
            "The leader sent a snapshot id with a valid",
            "Received fetch snapshot response with an invalid",
            "Received unexpected fetch snapshot response",
        ),
        kind=Subject.ELSEWHERE,
    ),
)
