"""Snapshots of VMs, and their restores."""
