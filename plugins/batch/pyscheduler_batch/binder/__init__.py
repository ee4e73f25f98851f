"""Bind pods by KAI's BindRequests: the Bind plugin that writes these objects, and the binder that carries them out."""
