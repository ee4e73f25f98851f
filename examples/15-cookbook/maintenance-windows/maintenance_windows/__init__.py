"""A scheduler plugin: `MaintenanceWindows` keeps pods off nodes that will soon be under maintenance."""
