"""The scheduling queue: the pods that wait for a node, and when each of them is retried.

Begin with `scheduling_queue`.
"""
