"""The command line: one module per command, which parses, calls, renders and gives an exit code.

Spec: none of Kafka's; this is the only layer that prints. It must never judge or read a log itself.
"""
