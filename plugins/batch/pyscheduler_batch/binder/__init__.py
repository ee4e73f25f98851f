"""KAI's BindRequests: the Bind plugin that writes them, and the reconciler that carries them out."""
