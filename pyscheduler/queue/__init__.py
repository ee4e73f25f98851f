"""The scheduling queue: activeQ, backoffQ, unschedulable and gated pods, in-flight events, the nominator.

Belongs here: where a pod waits, why, and what brings it back; `SchedulingQueue` is the door, `places` has the map.
Does not belong here: the cache, the runtime (hints and PreEnqueue come in as functions), the API server, any waiting
but for the next pod.
"""
