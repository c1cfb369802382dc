"""What objects of the built-in kinds may say."""
