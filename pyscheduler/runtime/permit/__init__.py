"""Pods that wait at the extension point Permit, and pods whose PreBind plugins are running."""
