"""Nodes that are emptied: one migration for each guest that an eviction has marked, or that a drain taint moves."""
