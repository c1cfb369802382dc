"""Users of the API: their certificates, rights and kubeconfigs."""
