"""Volumes that come and go while a guest runs: attachment Pods, and the controller's side of their status."""
