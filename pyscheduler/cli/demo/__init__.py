"""The command `pyscheduler demo`, which schedules the pods of a trace and checks the result."""
