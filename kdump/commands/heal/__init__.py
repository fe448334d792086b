"""``kdump heal``: damaged and missing parts of a log, taken from copies of it.

result   Surveys of the healed logs, and what stays damaged.
steps    The order of the steps of a plan to heal.
plan     plan_heal(): the damaged and missing parts of a log that copies have.
command  ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
"""
