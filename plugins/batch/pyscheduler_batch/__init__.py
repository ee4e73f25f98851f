"""Batch scheduling for pyscheduler: jobs with several pods, and queues that share a cluster by quotas.

A batch profile works in passes. A pass is one round of scheduling over all jobs and queues; its tables of queues, jobs
and nodes are called a session. `contract` has the base classes for policies and actions of other Python packages.
`model` has the tables of a session, and `sessions` runs the passes within the scheduling loop. `status` writes the
results into pod groups and queues, `settings` reads the configuration, and `cli` has the commands. `gpu_sharing` lets
pods share GPUs, `binder` binds pods through KAI's BindRequests, and `usage` knows what queues held in the past. Each
batch system, such as KAI, is a subclass of `system.System` in a Python package of its own.
"""
