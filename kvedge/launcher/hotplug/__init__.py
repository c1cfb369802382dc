"""Disks that come and go while the guest runs: what is wanted, what is there, what is done, and what is in the way."""
