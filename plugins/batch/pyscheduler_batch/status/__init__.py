"""Write what batch scheduling decided: the status of queues and groups, and events in the words of each system."""
