"""Verification: surveys of segments, checks over them, findings and forecasts.

finding_code  FindingCode: severity, meaning, what a broker does, what to do, its cure.
commands      The commands that findings and reports name, as argument vectors.
findings      Finding: one problem or oddity, with its file, position, offsets and remedy.
facts/        Facts about partitions from all files but their segments.
survey/       One pass over a segment and its indexes; the result is small and can travel.
replay/       The replay of a partition's segments: producers, transactions, leader epochs.
targets/      The log directories, partitions and segments that paths as typed name.
evidence      Evidence: the input of the checks of a partition, a segment or a node.
remedies      The repair that heals each finding, where its cure asks for evidence.
startup/      A broker's next start: what its loader deletes, cuts, recovers and refuses.
checks/       The checks: pure functions from evidence to findings, a module for each kind of file.
codes         The list of modules with findings, in the order of the report, and the table of their
              codes.
verdicts/     The results: verdicts on partitions, losses, forecasts of whole directories.
judge         judge(): runs all checks over one partition or log directory, in order.
run/          The passes of a run over many partitions.
sizes/        The bytes of partitions: what their files take, and what retention deletes of them.
"""
