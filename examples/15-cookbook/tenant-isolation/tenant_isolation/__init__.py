"""A scheduler plugin: `TenantIsolation` never runs pods of two tenants on one node."""
