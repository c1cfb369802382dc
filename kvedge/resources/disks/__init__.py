"""Disks that last, as several roles know them: claims, DataVolumes, uploads, hotplugged volumes."""
