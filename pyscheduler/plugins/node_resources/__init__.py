"""The requests of a pod compared with the amounts of a node: whether the pod fits, and how well.

Belongs here: NodeResourcesFit with its three scoring strategies, NodeResourcesBalancedAllocation, and the amounts from
which both plugins compute scores. Does not belong here: adding up the requests of a pod (`kube_objects.resources`).
"""
