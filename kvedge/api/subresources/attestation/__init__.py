"""How the owner of an encrypted guest says with which keys it starts."""
