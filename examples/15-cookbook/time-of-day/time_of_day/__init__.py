"""A scheduler plugin: `TimeOfDay` starts pods only in the hours of their class."""
