"""Bundles: one file with all that a site needs."""
