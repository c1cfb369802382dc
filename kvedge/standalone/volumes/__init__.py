"""The storage of one box: it binds claims, makes volumes for them and takes volumes back."""
