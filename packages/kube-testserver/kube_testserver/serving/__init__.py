"""Answer API requests for objects, lists and watches, and for discovery and OpenAPI."""
