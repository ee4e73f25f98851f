"""The state of one scheduling round as tables of queues, jobs, tasks (pods) and nodes."""
