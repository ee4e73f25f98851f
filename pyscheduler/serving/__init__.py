"""A scheduler as a server process: its start and end, its ports, and who may access them.

The process has leader election, the watchdog, probes, metrics and debugging pages.
"""
