"""Demos of gangs and of queues: schedule a workload, record what happens, and check the recording."""
