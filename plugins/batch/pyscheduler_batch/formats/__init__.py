"""The objects of batch systems: queues, groups, topologies and presets as they are written."""
