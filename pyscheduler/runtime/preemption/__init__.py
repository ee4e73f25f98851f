"""Preemption: find the nodes where a pod fits once others are evicted, choose one, and evict the victims.

`search` runs a preemption for one plugin. `dry_run` finds the victims on a few nodes. `columns` finds them on many
nodes, with one dry run for all nodes of the same shape (`node_shapes`, `nominated_usage`, `shape_results`).
`victim_order` sorts victims, `disruption_budgets` protects some, `eviction` evicts them. `group_search` does the same
for a group of pods.
"""
