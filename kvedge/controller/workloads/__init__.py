"""Guests that move because kvedge was upgraded, or because claims of their disks are exchanged."""
