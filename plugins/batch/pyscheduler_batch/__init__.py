"""Batch scheduling for pyscheduler: queues, jobs, and sessions that decide job by job.

`contract` is what authors of policies and actions import; `model` has the columns and statements of a session,
`sessions` runs sessions as a source of work of the scheduling loop, `status` writes what became of jobs and queues,
`settings` reads configuration files, and `cli` has the commands. A batch system is one object (`system`), which a
distribution of its own offers.
"""
