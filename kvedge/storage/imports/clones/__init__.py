"""Copies of claims: beside each other, or from another namespace."""
