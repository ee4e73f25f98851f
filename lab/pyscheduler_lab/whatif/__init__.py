"""Change a dump of a cluster in memory, and let the scheduler place the pods that have no node then.

`dump` reads files, `change` changes nodes, `profiles` chooses the configuration, `run` runs the scheduler, and `answer`
compares the placements. `scale` looks for the smallest number of nodes. Nothing is written to a real cluster.
"""
