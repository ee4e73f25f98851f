"""The tables of a session: queues, jobs, tasks and nodes in columns. Pure: no I/O, no clock of its own."""
