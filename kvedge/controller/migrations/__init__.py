"""Live migrations: which may begin, the Pod that a guest comes to, and how far each is."""
