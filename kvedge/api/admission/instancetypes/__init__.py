"""Instance types and preferences: what may enter as one, and what VMs that name one may be."""
