"""A scheduler plugin: `Cost` prefers the nodes on which a pod costs least."""
