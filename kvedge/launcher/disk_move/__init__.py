"""Disks that move to other claims while their guest runs on: copied, settled, exchanged, or given up."""
