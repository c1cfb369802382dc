"""Verbs for objects, images and users."""
