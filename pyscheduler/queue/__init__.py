"""The scheduling queue: the pods that wait for a node, and when each of them is retried.

`scheduling_queue` has the operations; `sub_queues` moves pods between the places where they wait. Does not belong here:
the cache, the API server, calls of plugins (hints and PreEnqueue are passed in as functions).
"""
