"""Write the results of batch scheduling: statuses of queues and groups, and events."""
