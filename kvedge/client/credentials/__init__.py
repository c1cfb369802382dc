"""Secrets that hold the keys and passwords of guests: found in a VM, planned, written."""
