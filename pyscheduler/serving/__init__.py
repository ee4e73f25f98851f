"""A scheduler as a server process: its start and end, its ports, and who may access them.

Belongs here: leader election, the watchdog, probes, metrics and debugging pages. Does not belong here: commands and
their output, and decisions about pods.
"""
