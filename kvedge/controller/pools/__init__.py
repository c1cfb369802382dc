"""Pools: a number of VMs of one template, which follow its changes."""
