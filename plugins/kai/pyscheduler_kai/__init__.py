"""The rules of KAI-Scheduler for the plugin `Batch`: its actions (steps of a scheduling round) and KAI's plugins."""
