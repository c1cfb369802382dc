"""Kinds that keep VMs and their disks: snapshots and restores."""
