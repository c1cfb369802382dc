"""The node agent: scheduler and kubelet of one box, for launcher Pods."""
