"""KAI-Scheduler for the plugin `Batch`: KAI's actions (steps of a scheduling round) and KAI's plugins."""
