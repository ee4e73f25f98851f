"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod, or have volumes provisioned.

Kubernetes' controllers bind the claims of classes with `volumeBindingMode: Immediate`, and provision volumes.
"""
