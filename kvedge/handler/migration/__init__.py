"""Live migration: what becomes of a guest that two nodes know of, and the way of its data between them."""
