"""Pods at Permit or in PreBind: the map of waiting pods, its indexes, and the release of waiting pods."""
