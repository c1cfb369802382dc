"""Alarms: what is bad of VMs, nodes and backups, kept over restarts, and told to people outside."""
