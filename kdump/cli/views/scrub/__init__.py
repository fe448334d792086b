"""The reports of ``scrub``.

text        The text report of a scrub, and the state of log directories in words.
json_lines  The JSON Lines of a scrub, and of the state of log directories.
"""
