"""VolumeBinding: find volumes for the PersistentVolumeClaims of a pod, or have volumes provisioned.

Belongs here: the choice of volumes per node, volumes and claims that are assumed until the API server has them, and the
writes. Does not belong here: claims with immediate binding, and the provisioning itself, which Kubernetes' controllers
and the drivers do.
"""
