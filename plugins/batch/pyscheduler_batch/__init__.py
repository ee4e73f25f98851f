"""Batch scheduling for pyscheduler: queues, jobs, and sessions that decide job by job.

`contract` is what authors of policies and actions import. `model` has the tables and statements of a session.
`sessions` runs the sessions within the scheduling loop. `status` writes the results into jobs and queues, `settings`
reads configuration files, and `cli` has the commands. Each batch system (`system`), such as KAI, is a class in a
distribution of its own.
"""
