"""What the claims of one box are made of: one driver interface, and a driver for each kind of place."""
