"""The preset that decides as KAI-Scheduler does: its actions and policies."""
