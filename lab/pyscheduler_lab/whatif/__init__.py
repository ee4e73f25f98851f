"""Changes a dump of a cluster in memory, and then lets the scheduler place the pods without a node.

`dump` reads the files, `change` removes and adds nodes, `profiles` chooses the configuration, `run` lets the scheduler
work in virtual time, `answer` compares the placements, and `scale` looks for the smallest number of nodes. No module
writes to a real cluster.
"""
