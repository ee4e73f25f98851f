"""Past use of queues, for time-based fair shares (KAI)."""
