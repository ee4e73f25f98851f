"""Batch scheduling for pyscheduler: jobs with several pods, and queues that share a cluster by quotas.

A batch profile does not schedule pod by pod. It works in passes: each pass is one round of scheduling over all jobs and
queues. The package `sessions` runs the passes. The package `model` has tables of the queues, jobs, pods and nodes in a
pass.

Batch systems, such as KAI and Volcano, are Python packages of their own.
"""
