"""kdump: fsck for Kafka log directories."""
