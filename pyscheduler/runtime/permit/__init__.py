"""Pods that wait at Permit, or run PreBind: the map of waiting pods, its indexes, and the release of waiting pods."""
