"""Fractions of GPUs as in KAI: the pods that share each GPU, and the pods that reserve these GPUs."""
