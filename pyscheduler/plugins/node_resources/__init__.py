"""Compare the requests of a pod with the resources of nodes: which nodes have room, and which nodes suit the pod best.

The plugins are NodeResourcesFit and NodeResourcesBalancedAllocation.
"""
