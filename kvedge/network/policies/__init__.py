"""The NetworkPolicies of one box: which packets reach Pods and leave them."""
