"""Two subresources of pods: a POST to `binding` binds the pod, and a POST to `eviction` deletes the pod."""
