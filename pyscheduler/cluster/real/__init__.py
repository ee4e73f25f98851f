"""The client side: one path for everything the scheduler reads from and writes to an API server.

`connect` puts it on a transport: HTTP (`http`) against a real server, or in-process into the embedded store. What is
tested and simulated is therefore what ships. Credentials come from the official client, in `auth` and nowhere else.
"""
