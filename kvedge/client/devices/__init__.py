"""Devices of nodes, as a user looks at them."""
