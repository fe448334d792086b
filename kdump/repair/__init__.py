"""Changing what is on disk: plans, the few durable steps that they are made of, and undo.

Spec: none of Kafka's. Nothing outside ``repair.disk`` may change a file.
"""
