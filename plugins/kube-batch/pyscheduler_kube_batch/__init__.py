"""The preset that decides as kube-batch does: its actions and policies."""
