"""Preemption: find the nodes where a pod fits once others are evicted, choose one node, and evict the victims there.

`search` does these steps for one pod, `group_search` for a group of pods. `dry_run` finds the victims on a few nodes;
`columns` finds them on many nodes at once.
"""
