"""Fractions of GPUs as in KAI: pods share a GPU, and one more pod reserves the whole GPU for them."""
