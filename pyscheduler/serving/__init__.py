"""A scheduler as a server process: its start and end, its ports, and who may access them."""
