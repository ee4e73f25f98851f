"""The preset `kai`: the actions and policies of KAI-Scheduler, so that a batch profile decides as KAI does."""
