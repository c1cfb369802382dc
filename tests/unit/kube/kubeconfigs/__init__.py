"""Unit tests of kvedge.kube.kubeconfigs."""
