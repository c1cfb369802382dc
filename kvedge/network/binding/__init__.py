"""How a Pod interface becomes that of a guest."""
