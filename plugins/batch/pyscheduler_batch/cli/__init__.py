"""The commands `pyscheduler queue` and `pyscheduler binder`."""
