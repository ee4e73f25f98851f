"""The scheduling queue: the pods that wait for a node, and when each of them is retried.

Begin with `scheduling_queue`, which has the operations. Does not belong here: the cache, the API server, and plugins.
The queue calls plugins through functions that it is given.
"""
