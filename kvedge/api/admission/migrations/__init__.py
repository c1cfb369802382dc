"""What may enter of live migrations: the migrations themselves, and policies for them."""
