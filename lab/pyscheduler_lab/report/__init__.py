"""A report: one HTML file that compares simulations, from the folders with their results."""
