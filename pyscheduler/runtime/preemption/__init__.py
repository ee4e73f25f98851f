"""Preemption: find the nodes where a pod fits once others are evicted, choose one node, and evict the victims there.

`search` has these steps for one pod. `dry_run` finds the victims on a few nodes; `columns` finds them on many nodes at
once. `victim_order` and `disruption_budgets` say which pods are evicted last. `group_search` is the preemption for a
group of pods.
"""
