"""What may enter (admission), and who may look at a screen (subresources)."""
