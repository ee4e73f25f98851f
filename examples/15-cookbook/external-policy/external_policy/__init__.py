"""A scheduler plugin: `ExternalPolicy` asks an HTTP service whether a pod may be scheduled."""
