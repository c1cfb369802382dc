"""The configuration in the KubeVirt object: its table, its checks, what is in force."""
