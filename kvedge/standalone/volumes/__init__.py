"""The storage of one box: who binds claims, makes volumes for them and takes volumes back."""
