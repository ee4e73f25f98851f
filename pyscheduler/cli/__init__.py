"""The commands: they parse their options, connect the other packages and print results.

A command imports heavy modules inside its function, so that `pyscheduler --help` answers at once.
"""
