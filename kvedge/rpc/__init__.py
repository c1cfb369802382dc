"""Generated from proto/ by packaging/protos; never edited."""
