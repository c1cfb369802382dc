"""Instance types and preferences: what a VM means by one, and what its template becomes with it."""
