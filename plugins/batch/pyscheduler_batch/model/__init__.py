"""The state of one scheduling round as tables: queues, jobs, tasks and nodes. No I/O, and no clock of its own."""
