"""The commands `pyscheduler demo` and `pyscheduler demo-gang`, and the checks of their results."""
