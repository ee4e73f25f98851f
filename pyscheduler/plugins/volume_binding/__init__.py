"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod.

If no volume suits, a controller of Kubernetes can provision one for the node that the plugin has chosen. For classes
with `volumeBindingMode: Immediate`, controllers bind the claims, too.
"""
