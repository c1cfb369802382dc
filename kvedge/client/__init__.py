"""A client of kvedge's API for people's tools: the command line, and whatever else shows VMs to somebody."""
