"""Somebody is told when what keeps VMs fails: a program of the site, called by one box."""
