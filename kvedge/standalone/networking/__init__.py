"""The network of one box as its users name it: Services, their endpoints, and the way to them."""
