"""NodeVolumeLimits: reject nodes on which a CSI driver cannot attach as many volumes as the pod needs."""
