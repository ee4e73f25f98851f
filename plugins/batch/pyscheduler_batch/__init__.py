"""Batch scheduling for pyscheduler: jobs with several pods, and queues that share a cluster by quotas.

A batch profile does not schedule pod by pod. It works in passes: a pass is one round of scheduling over all jobs and
queues. The package `sessions` runs the passes. The package `model` has the state of a pass as tables of queues, jobs,
pods and nodes; this state is called a session.

Batch systems, such as KAI and Volcano, are Python packages of their own. Each of them has a subclass of
`system.System`, and policies and actions from the base classes in `contract`. `status` writes results into pod groups
and queues. `usage` counts the past use of queues.
"""
