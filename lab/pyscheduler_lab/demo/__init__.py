"""Demos of gangs and of queues: a workload, a recording of what was written, and a check of all of it."""
