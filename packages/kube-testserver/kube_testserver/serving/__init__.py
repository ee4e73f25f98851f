"""Answer requests: routing, lists and watches, discovery, OpenAPI, and injected faults."""
