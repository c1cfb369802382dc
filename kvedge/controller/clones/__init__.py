"""Clones of VMs: a snapshot, and a restore of it into a VM of another name."""
