"""The command `pyscheduler demo`, and the check of its result."""
