"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod, or have volumes provisioned.

Controllers of Kubernetes bind claims with immediate binding, and provision volumes.
"""
