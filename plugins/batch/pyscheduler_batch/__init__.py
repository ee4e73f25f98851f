"""Batch scheduling for pyscheduler: jobs with several pods, and queues that share a cluster by quotas.

A batch profile works in passes: rounds of scheduling over all jobs and queues. The tables of a pass are called a
session (`model`), and `sessions` runs the passes. `contract` has the base classes for policies and actions of other
Python packages. `status` writes results into pod groups and queues, and `usage` knows what queues held in the past.
Each batch system, such as KAI, is a subclass of `system.System` in a Python package of its own.
"""
