"""Volcano's rules for the plugin `Batch`: actions, which are the steps of a scheduling round, and policies."""
