"""Pages about the whole site: the KubeVirt object's settings, and what users may do."""
