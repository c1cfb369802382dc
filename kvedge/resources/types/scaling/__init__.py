"""Kinds from which VMs and VMIs are made in numbers."""
