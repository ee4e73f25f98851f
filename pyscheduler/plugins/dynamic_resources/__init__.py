"""DynamicResources: allocate devices to the ResourceClaims of pods, and reserve the claims for the pods.

Belongs here: the choice of devices for each node, the allocations that are not in the API server yet, and the writes.
Does not belong here: creating claims from templates and deleting them (Kubernetes' controller), and preparing devices
(their drivers).
"""
