"""The requests of a pod compared with the amounts of a node: whether it fits, and how well.

Belongs here: NodeResourcesFit with its three scoring strategies, NodeResourcesBalancedAllocation, and the view of
amounts that both score by. Does not belong here: how requests of a pod are added up, which is `pyscheduler.api`'s.
"""
