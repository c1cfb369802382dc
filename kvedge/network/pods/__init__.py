"""The network of one box: its bridge, its addresses, its forwarding."""
