"""KubeVirt's backups of running VMs: which are taken, when, and whether blocks that changed are enough."""
