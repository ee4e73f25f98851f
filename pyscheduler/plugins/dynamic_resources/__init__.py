"""DynamicResources: allocate devices to the ResourceClaims of pods, and reserve the claims for the pods.

A controller of Kubernetes creates claims from templates, and drivers prepare the devices.
"""
