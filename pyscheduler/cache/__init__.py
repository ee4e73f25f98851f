"""The scheduler's record of the nodes and of the pods on them.

`cache` keeps the record up to date. A scheduling cycle works on a copy of it, the `snapshot`.
"""
