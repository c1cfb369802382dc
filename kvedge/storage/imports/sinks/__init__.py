"""The way of an image or an archive into a claim."""
