"""Bytes to values and back: the formats of Kafka's files. No file is opened here."""
