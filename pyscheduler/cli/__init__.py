"""The commands: they parse their options, wire the other packages and print results. They decide nothing.

A command imports heavy modules inside its function, so that `pyscheduler --help` answers at once.
"""
