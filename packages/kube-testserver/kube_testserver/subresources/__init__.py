"""The subresources `binding` and `eviction` of pods: a POST binds or deletes the pod."""
