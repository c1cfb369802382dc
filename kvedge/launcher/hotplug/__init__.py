"""Disks, NICs and CPUs of a guest that runs: what is wanted, what is there, what is done, and what is in the way."""
