"""The scheduler's record of nodes and of the pods on them.

`cache` has the assumed and bound pods. A scheduling cycle works on a copy, the `snapshot`: `view` shows it to plugins,
and `columns` has its quantities as arrays. This package does no I/O: events come in as method calls.
"""
