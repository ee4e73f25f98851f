"""Answer requests: the router, its transports, lists and watches, discovery, OpenAPI, and injected faults."""
