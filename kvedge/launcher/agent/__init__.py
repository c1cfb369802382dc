"""The guest agent: what it is asked, when, and what it answers."""
