"""Networks besides the Pod network, on one box: host bridges that Pods join by their names."""
