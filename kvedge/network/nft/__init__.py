"""nftables: kvedge's own tables as values, and the one door by which they reach the kernel."""
