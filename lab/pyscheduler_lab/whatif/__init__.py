"""Changes a dump of a cluster in memory, and lets the scheduler place the pods that have no node then.

`dump` reads the files, `change` removes and adds nodes, `profiles` chooses the configuration, `run` lets the scheduler
work in virtual time, `answer` compares the placements, and `scale` looks for the smallest number of nodes. No module
writes to a cluster.
"""
