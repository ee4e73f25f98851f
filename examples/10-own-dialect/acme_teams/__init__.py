"""A dialect of pod groups as a distribution of its own."""
