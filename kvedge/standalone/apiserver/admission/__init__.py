"""What may be written: the built-in admission, Pod Security, quotas, webhooks."""
