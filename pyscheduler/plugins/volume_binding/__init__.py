"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod, or have new volumes provisioned."""
