"""Verbs for what runs in a VM."""
