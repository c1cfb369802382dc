"""Calls of Linux that Python does not have, each subject in a file of its own."""
