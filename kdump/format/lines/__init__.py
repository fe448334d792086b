"""Values as text and JSON lines.

text     Escaping of text for terminals and logs, and the text form of offsets and times.
shell    Commands as text that bash and zsh split into the same words.
forms    The fields of a batch in one line of a dump.
decoded  Records of internal topics as the decoders of Kafka's dump tool print them.
lines    Batches and records as JSON lines, or as the text that Kafka's own dump tool prints.
"""
