"""The report about this host, with its secrets removed."""
