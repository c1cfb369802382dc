"""Exports of disks and VMs: what is served, by which Pod, and for how long."""
