"""Count, or ask Prometheus, what queues held in the past, for KAI's time-based fair shares."""
