"""Manifests made of options: VMs, their cloud-init data and volumes, Services."""
