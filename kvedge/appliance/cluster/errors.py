"""Why this host cannot be made a node of a cluster, as types by meaning: each text tells a person what to do.

Raised by what prepares nodes. The command line makes exit codes of them (kvedge/cli/failures.py). Touches nothing.
"""

from __future__ import annotations


class ClusterError(Exception):
    """This host cannot be made a node of the cluster."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class UnfitError(ClusterError):
    """Something about this host or its cluster must be changed first: a version, a missing right, an address."""


class NoKubeconfigError(ClusterError):
    """Nothing here can speak to the cluster for this node."""


class UnknownNodeError(ClusterError):
    """The cluster has no such node."""


class SilentClusterError(ClusterError):
    """The cluster does not answer."""
