"""The commands of `pyscheduler` and its kubectl plugins.

A command imports heavy modules inside its function, so that `pyscheduler --help` answers at once.
"""
