"""Pods that wait at Permit, and pods whose PreBind plugins run."""
