"""Tests of the parts that play Kubernetes for one box."""
