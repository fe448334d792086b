"""Checks of the configs of a node and its topics against what its release accepts.

Spec: ``LogConfig``, ``AbstractConfig``; KOD 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import NodeEvidence
from kdump.audit.finding_code import FindingCode, Outcome, Severity
from kdump.audit.findings import Finding, file_finding

SETTING_REFUSED: Final = FindingCode(
    "setting-refused",
    Severity.ERROR,
    "A topic of the cluster, or server.properties, has a config that this node's release, as last "
    "registered, does not accept. Brokers from 4.0 on refuse a log.segment.bytes below 1 MiB. "
    "Brokers from 4.1 on refuse a segment.bytes below 1 MiB and a metadata.log.segment.bytes below "
    "8 MiB. Brokers from 4.3 on refuse an empty path in log.dirs, as after a comma at its end.",
    "The broker does not start, whether it has a replica of the topic or not.",
    "Correct server.properties, or raise segment.bytes of the topic with kafka-configs.sh while "
    "the release from before the upgrade runs. Then upgrade.",
    stops=Outcome.REFUSES,
)

#: The least segment.bytes that brokers from 4.1 on accept.
MIN_SEGMENT_BYTES: Final = 1 << 20
#: The first levels of metadata.version that only brokers from 4.0, 4.1 and 4.3 on support.
_FIRST_4_0: Final = 22
FIRST_4_1: Final = 26
_FIRST_4_3: Final = 30
#: The sizes in ``server.properties``, each with the first level of the releases that refuse a
#: smaller value than the second number.
_SIZES: Final = {
    "log.segment.bytes": (_FIRST_4_0, MIN_SEGMENT_BYTES),
    "metadata.log.segment.bytes": (FIRST_4_1, 8 << 20),
}


def check_topic_settings(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check settings against what the release accepts that the node last registered with."""
    image, node = evidence.node.image, evidence.node
    if image is None or not evidence.stopped:
        return
    path = evidence.directories[0].directory.path
    for name, (level, least) in _SIZES.items():
        text = (evidence.config or {}).get(name, "")
        if node.runs_from(level) and is_small(text, least):
            expected = f"a {name} of {least} or more"
            yield file_finding(SETTING_REFUSED, path, expected, text)
    listed = (evidence.config or {}).get("log.dirs", "").strip()
    if node.runs_from(_FIRST_4_3) and listed and not all(map(str.strip, listed.split(","))):
        yield file_finding(SETTING_REFUSED, path, "paths in log.dirs", "an empty one")
    if not node.runs_from(FIRST_4_1):
        return
    for topic in sorted(image.topics):
        text = image.topic_configs.get(topic, {}).get("segment.bytes", "")
        if is_small(text):
            expected = f"a segment.bytes of {MIN_SEGMENT_BYTES} or more for topic {topic}"
            yield file_finding(SETTING_REFUSED, path, expected, text)


def is_small(text: str, least: int = MIN_SEGMENT_BYTES) -> bool:
    """Return whether a segment size is below the minimum of newer brokers."""
    text = text.strip()
    return text.isascii() and text.isdigit() and int(text) < least


NODE_CHECKS: Final = (check_topic_settings,)
