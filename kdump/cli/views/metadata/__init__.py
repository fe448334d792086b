"""The reports of ``metadata``.

problems      What was not replayed, and the exit code.
text          The image in sections for people.
json_lines    JSON Lines: a line for each part of an image, or for each difference.
difference    The differences between two images for people.
commands      Commands of Kafka's tools that make topics, configs, quotas and ACLs again.
"""
