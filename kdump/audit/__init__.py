"""Judging what is on disk: surveys of segments, checks over them, findings.

Spec: the invariants of KOD 9. Reads through ``kdump.storage`` alone, and changes nothing.
"""
