"""The scheduler's record of nodes and of the pods on them.

`cache` has the assumed and bound pods. A scheduling cycle works on a copy, the `snapshot`. The snapshot's `columns`
have an array or index for each quantity, and `view` shows them to plugins. This package does no I/O: events come in as
method calls.
"""
