"""Cases of batch scheduling: small clusters with the decisions of one pass, and tables of queue arithmetic."""
