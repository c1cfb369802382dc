"""The one run of the one domain: what it is made of, what it is told, what is seen of it, and how it ends."""
