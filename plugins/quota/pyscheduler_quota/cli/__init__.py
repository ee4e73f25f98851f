"""The commands of the quota plugin: `pyscheduler webhook`, and a column in the tables of `pyscheduler podgroup`."""
