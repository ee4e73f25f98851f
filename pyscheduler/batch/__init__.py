"""Batch scheduling: queues, jobs and the contract of batch policies. Pure: no I/O, no clock of its own."""
