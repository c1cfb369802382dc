"""Exports of disks and VMs."""
