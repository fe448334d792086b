"""The logs of a healed partition: damaged and missing parts, taken from copies of it.

copies     The copies of a partition that a repair may take batches from.
lineage    The lineage of the log under repair, and the batches that it allows.
own_log    A segment of the log under repair: its sound batches and the damage between them.
reading    The batches of a copy from a place on.
alignment  A damaged stretch laid beside a copy of the same size.
chain      The batches that follow a batch, from the first copies that have them.
draft      The logs of a healed partition, as parts of their old logs and of copies.
healing    The healed logs of a partition: stretches first, then ends and missing segments.
result     Surveys of the healed logs, and what stays damaged.
steps      The order of the steps of a plan to heal.
plan       plan_heal(): the damaged and missing parts of a log that copies have.
"""
