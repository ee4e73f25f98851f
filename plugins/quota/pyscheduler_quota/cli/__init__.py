"""The commands: `pyscheduler webhook`, and reserved quota in `pyscheduler podgroup`."""
