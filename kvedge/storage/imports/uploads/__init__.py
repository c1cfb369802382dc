"""A claim that is filled with what a client pushes."""
