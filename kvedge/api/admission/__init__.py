"""Admission: what a VM, a VMI or a KubeVirt object becomes and may be."""
