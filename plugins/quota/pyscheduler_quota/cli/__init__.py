"""The commands of the quota plugin: `pyscheduler webhook`, and reserved quota in `pyscheduler podgroup`."""
