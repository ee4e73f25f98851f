"""Demos of gangs and of queues: a workload, a recording of all writes, and a check of this recording."""
