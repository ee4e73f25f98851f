"""The command `kubectl podgroup`."""
