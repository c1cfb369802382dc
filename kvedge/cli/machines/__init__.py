"""Verbs for virtual machines."""
