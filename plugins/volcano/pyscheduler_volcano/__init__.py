"""The rules of Volcano for the plugin `Batch`: its actions (steps of a scheduling round) and its policies."""
