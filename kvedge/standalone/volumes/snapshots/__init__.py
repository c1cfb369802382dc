"""Snapshots of claims of one box: taken, kept and restored, as the external-snapshotter does it in a cluster."""
