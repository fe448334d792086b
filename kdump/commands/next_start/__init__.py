"""``kdump next-start``: what a broker does at its next start.

reports  The reports of ``next-start``, and its exit code.
command  ``kdump next-start``: what a broker does at its next start.
"""
