"""Batch scheduling for pyscheduler: the presets `kai`, `volcano` and `kube-batch`.

Belongs here: the framework plugin `Batch`, all actions and policies, and the writers of queue status, built on the
public contract only (`pyscheduler.batch`, `pyscheduler.framework`, `pyscheduler.podgroup`, `pyscheduler.api`). Does not
belong here: the tables and statements of a session (`pyscheduler.batch`), and the loop that runs sessions
(`pyscheduler.scheduler.sessions`).
"""
