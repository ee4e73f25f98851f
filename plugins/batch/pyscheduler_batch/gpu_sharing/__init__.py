"""Fractions of GPUs as in KAI: which pods share which devices, and the pods that reserve these devices."""
