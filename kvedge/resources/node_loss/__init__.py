"""A node that is lost: when its guests are surely gone, and what its handler and the controller say of that."""
