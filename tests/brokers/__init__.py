"""Runs real Kafka brokers for tests, and makes the fixtures with them."""
