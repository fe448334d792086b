"""What the report says of samples: compression types, and the logs as zstd would make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.commands.space.space import TopicSpace
from kdump.ui.units import count_text, short_size_text, size_text


def type_text(topic: TopicSpace) -> str | None:
    """Return the most frequent compression type, how many others there are, and the ratio."""
    if topic.sample is None:
        return None
    first, *others = topic.sample.types
    more = f"+{len(others)}" if others else ""
    return f"{first}{more} {topic.sample.ratio:.2f}"


def zstd_text(topic: TopicSpace) -> str | None:
    """Return the size of the logs as zstd would make them, and the error in percent of it."""
    if topic.sample is None:
        return None
    size = short_size_text(topic.sample.zstd * topic.log_bytes)
    error = topic.sample.error
    if error is None:
        return f"{size} ±?"
    return f"{size} ±{100 * error / topic.sample.zstd:.0f} %" if error else size


def sample_fields(topic: TopicSpace) -> dict[str, object]:
    """Return the fields of a topic for JSON; None without a sample."""
    sample = topic.sample
    if sample is None:
        return {"compression": None, "zstd": None}
    error = None if sample.error is None else round(sample.error * topic.log_bytes)
    return {
        "compression": {
            "types": [{"type": label, "part": round(part, 6)}
                      for label, part in sample.types.items()],
            "ratio": round(sample.ratio, 6),
            "sampled_bytes": sample.bytes,
            "sampled_batches": sample.batches,
            "unread_batches": sample.unread,
        },
        "zstd": {"bytes": round(sample.zstd * topic.log_bytes), "error_bytes": error},
    }  # fmt: skip


def sample_sentence(topics: Sequence[TopicSpace]) -> Iterator[tuple[str, str]]:
    """Yield the sentence on all samples with its label; none without a sample."""
    found = [(topic, topic.sample) for topic in topics if topic.sample is not None]
    if not found:
        return
    logs = sum(topic.log_bytes for topic, _ in found)
    smaller = sum(sample.zstd * topic.log_bytes for topic, sample in found)
    errors = [(sample.error or 0) * topic.log_bytes for topic, sample in found]
    error = sum(each**2 for each in errors) ** 0.5
    around = f" ± {size_text(error)}, twice the standard error," if error else ""
    unread = sum(sample.unread for _, sample in found)
    left = f"; {count_text(unread, 'batch', 'batches')} cannot be decompressed" if unread else ""
    yield (
        "as zstd",
        f"{size_text(smaller)}{around} of {size_text(logs)} in logs, by a sample of "
        f"{size_text(sum(sample.bytes for _, sample in found))}: level 3, batch by batch{left}. "
        "compression.type=zstd compresses what is written from then on, and nothing that is there",
    )
