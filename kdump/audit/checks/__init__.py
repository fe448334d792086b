"""The checks: pure functions from surveys to findings, one module for each kind of file.

Spec: the invariants of KOD 9. They must never read a file.
"""
