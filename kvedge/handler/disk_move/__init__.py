"""Disks that move to other claims while their guest runs on here: when, and what the VMI says of it."""
