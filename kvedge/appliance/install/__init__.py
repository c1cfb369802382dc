"""Installing, upgrading and removing kvedge on this host."""
