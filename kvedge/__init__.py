"""kvedge: one executable that turns an edge host into a virtual-machine node.

Holds the version only, so that importing the package costs nothing.
"""

__version__ = "0.1.0"
