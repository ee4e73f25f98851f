"""The scheduler: scheduling loop, scheduling cycle, binding cycle, event handlers and failure handling."""
