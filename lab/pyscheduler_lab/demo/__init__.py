"""Demos of gangs and of queues: schedule a workload, record all writes, and check the recording."""
