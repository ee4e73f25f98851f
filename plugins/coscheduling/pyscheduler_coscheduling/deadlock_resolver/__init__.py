"""The resolver of deadlocks between groups of pods.

In a deadlock, groups hold nodes that other groups need, so that no group is complete. The resolver chooses a winner;
other groups give up nodes for it. Begin with the module `deadlocks`.
"""
