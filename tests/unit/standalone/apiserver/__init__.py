"""Tests of the embedded API."""
