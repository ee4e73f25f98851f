"""Change a copy of a cluster's objects, and let the scheduler place the pods that have no node after the change.

For example, remove a node, and see where its pods would run. Nothing is written to a real cluster.
"""
