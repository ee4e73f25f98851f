"""DynamicResources: allocate devices to the ResourceClaims of pods, and reserve the claims for the pods."""
