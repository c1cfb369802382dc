"""Tests of the drop-in directories."""
