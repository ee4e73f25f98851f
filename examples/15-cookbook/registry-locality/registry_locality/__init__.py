"""A scheduler plugin: `RegistryLocality` prefers the nodes that pull a pod's images at the least cost."""
