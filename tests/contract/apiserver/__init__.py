"""One suite for two servers: what the embedded API and a real kube-apiserver both must do."""
