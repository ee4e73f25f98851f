"""The preset that decides as Volcano does: its actions and policies."""
