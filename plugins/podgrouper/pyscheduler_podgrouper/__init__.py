"""Make pod groups for workloads: the framework plugin `PodGrouper`, and the rules for the kinds of workloads.

Begin with `contract` (what a rule gets and returns), `table` (the kinds) and `planning` (from a pod to its group).
`plugin` watches pods and writes their groups. The rules follow KAI-Scheduler's podgrouper.
"""
