"""Values as text and JSON lines.

text   Escaping of text for terminals and logs, and the text form of offsets and times.
shell  Commands as text that bash and zsh split into the same words.
forms  The fields of a batch in one line of a dump.
lines  Batches and records as JSON lines, or as the text that Kafka's own dump tool prints.
"""
