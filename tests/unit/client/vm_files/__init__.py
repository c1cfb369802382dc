"""Tests of VMs as files."""
