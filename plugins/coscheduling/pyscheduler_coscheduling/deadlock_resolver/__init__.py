"""The resolver of deadlocks between groups of pods. All group plugins of one scheduler share it.

In a deadlock, groups hold nodes that other groups need, so that no group is complete. The resolver chooses a winner;
other groups give up nodes for it. Begin with the module `deadlocks`.
"""
