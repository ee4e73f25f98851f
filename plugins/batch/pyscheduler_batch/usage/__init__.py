"""The past resource usage of queues, for KAI's time-based fair shares."""
