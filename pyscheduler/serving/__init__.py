"""A scheduler as a server process: its start and end, its ports, and the permissions to access them."""
