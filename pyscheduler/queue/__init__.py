"""The scheduling queue: activeQ, backoffQ, unschedulable, gated and held pods, in-flight events, the nominator.

Belongs here: where a pod waits, why, and what brings it back. `scheduling_queue` has the operations, `sub_queues` the
moves of pods between the sub-queues. Does not belong here: the cache, the runtime (hints and PreEnqueue are passed in
as functions), the API server, the event loop.
"""
