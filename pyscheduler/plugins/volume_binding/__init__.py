"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod.

If no existing volume suits, a new one can be provisioned for the chosen node.
"""
