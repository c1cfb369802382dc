"""Rules for a VMI's interfaces and networks."""
