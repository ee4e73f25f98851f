"""A cluster in memory, without an API server, for simulations that only need the scheduler's decisions."""
