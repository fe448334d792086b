"""Messages in a broker's server.log about its log directories.

layouts   Structured lines of a log, such as JSON, as lines of Kafka's own layout.
entries   Lines of a log as entries: level, text and stack trace.
message   Message: a pattern of logged text, and the answer to it.
rows      The rows of the table of messages, by subject.
location  The place that a logged entry names: path, log directory, partition, offset and position.
table     The table of all messages, and the search for the message of an entry.
report    The entries of a log in groups: damage, consequences, other messages.
"""
