"""A batch policy: jobs with a near deadline come first, and keep their nodes in their last hour."""
