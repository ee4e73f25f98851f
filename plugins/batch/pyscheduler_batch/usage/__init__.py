"""The past usage of queues, counted by the scheduler or read from Prometheus; for KAI's time-based fair shares."""
