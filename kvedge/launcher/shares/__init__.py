"""Directories that the guest has by virtiofs: the program of their containers, and the launcher's side of them."""
