"""Workers: the Pods that fill claims, what they are told, and what they say of their work."""
