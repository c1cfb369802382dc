"""Backups of VMs into repositories outside the cluster, and the way back."""
