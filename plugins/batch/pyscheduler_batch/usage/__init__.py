"""The past resource usage of queues, counted here or read from Prometheus; for KAI's time-based fair shares."""
