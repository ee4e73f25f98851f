"""The rules of a write: defaults, validation, admission, names, and the effect of a deletion.

Belongs here: functions from an object (and its earlier state) to a completed object or a list of problems. Does not
belong here: storing the result, which is the registry's part.
"""
