"""One file for each element of a domain."""
