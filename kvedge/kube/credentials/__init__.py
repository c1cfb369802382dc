"""What a client shows of itself: certificates, tokens, plugins, and the way to its server."""
