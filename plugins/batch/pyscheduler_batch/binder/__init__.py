"""Bind pods as KAI does: a plugin writes a BindRequest object for each pod, and the binder binds the pod."""
