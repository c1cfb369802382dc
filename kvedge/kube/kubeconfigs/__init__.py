"""Kubeconfigs: how all of kvedge reads and writes them."""
