"""A scheduler plugin: `RackPower` keeps each rack within its power budget."""
