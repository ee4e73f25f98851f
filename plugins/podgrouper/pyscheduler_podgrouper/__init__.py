"""Makes pod groups for workloads of any kind: the framework plugin `PodGrouper`, and the rules for kinds.

Begin with `contract` (what a rule gets and returns), `table` (one row for each kind) and `planning` (from a pod to its
group). `apply` compares a planned group with the object in the cluster. `plugin` watches pods and writes their groups.
`cases` computes the groups for test cases in files. The rules follow KAI-Scheduler's podgrouper.
"""
