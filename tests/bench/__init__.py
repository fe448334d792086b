"""What ``python tests/bench`` runs: the speed of kdump beside what limits it, and Kafka's tool."""
