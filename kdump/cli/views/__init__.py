"""Reports as text and JSON.

coordinator_logs  Faults in the logs of coordinators, in text and in JSON.
explain           The report of ``explain`` on a server.log.
forecast_json     The JSON line of a forecast.
forecast_text     A forecast in words.
export_check      The report of ``kdump check``: text, or JSON Lines with a line for each file.
verdict_text      The first line of a report: its state, what is lost, and what the next start does.
verify/           The reports of ``verify`` and ``next-start``.
scrub/            The reports of ``scrub``.
compare/          The reports of ``compare``.
repair/           Plans, receipts and backups.
dump/             The output of ``dump``.
groups/           The reports of ``groups``.
transactions/     The reports of ``transactions``.
metadata/         The reports of ``metadata``.
quorum/           The reports of ``quorum``.
"""
