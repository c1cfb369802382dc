"""Snapshots that are taken again and again, and old ones that are deleted."""
