"""Subresources whose POST changes a pod: binding and eviction."""
