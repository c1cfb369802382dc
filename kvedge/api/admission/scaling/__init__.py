"""Kinds from which VMs are made in numbers: what may enter of them."""
