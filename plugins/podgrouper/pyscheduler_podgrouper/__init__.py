"""Makes pod groups for workloads of every kind: the framework plugin `PodGrouper`, and the rule of each kind.

Begin with `contract` (what a rule gets and returns), `table` (one row for each kind) and `planning` (from a pod to its
group). `apply` compares a planned group with the object in the cluster. `plugin` watches pods and writes. `cases`
answers files of cases (workloads with expected groups). The rules follow KAI-Scheduler's podgrouper.
"""
