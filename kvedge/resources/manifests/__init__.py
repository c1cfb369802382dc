"""Manifests that kvedge makes of its own parts: CRDs, roles, Pods."""
