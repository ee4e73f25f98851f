"""The scheduler's state of nodes and of the pods on them.

Belongs here: the cache of assumed and bound pods (`cache`), the snapshot of it that a scheduling cycle works on
(`snapshot`), and the snapshot's columns: one array or index per quantity, kept up to date row by row (`columns`, `view`
and what they are built from).
Does not belong here: the API server, the queue, any policy. Events come in as method calls, nothing goes out.
"""
