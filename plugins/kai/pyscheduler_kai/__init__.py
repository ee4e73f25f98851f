"""KAI-Scheduler's actions (steps of a scheduling round) and plugins, for pyscheduler's plugin `Batch`."""
