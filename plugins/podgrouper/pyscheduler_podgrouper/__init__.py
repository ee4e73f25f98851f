"""Make pod groups for workloads: the plugin `PodGrouper`, and a function (a rule) for each kind of workload.

Begin with `contract` (arguments and results of a rule), `table` (the kinds) and `planning` (finds a pod's group).
The rules follow KAI-Scheduler's podgrouper.
"""
