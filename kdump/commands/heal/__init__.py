"""``kdump heal``: damaged and missing parts of a log, taken from copies of it.

result   Surveys of the healed logs, and what stays damaged.
notes    The notes of a plan to heal: what is taken from which copy, and what stays.
steps    The order of the steps of a plan to heal.
plan     plan_heal(): the damaged and missing parts of a log that copies have.
command  ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
"""
