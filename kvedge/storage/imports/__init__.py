"""Filling a claim: the worker of a DataVolume, which imports, clones, unpacks or is uploaded to."""
