"""The commands: parsing, wiring and output, and no logic of their own.

Everything heavy is imported inside the command that needs it, so that `pyscheduler --help` answers at once.
"""
