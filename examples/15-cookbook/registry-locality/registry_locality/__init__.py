"""A scheduler plugin: `RegistryLocality` prefers the nodes to which a pod's images are pulled fastest."""
