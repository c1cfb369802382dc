# The prompt that KubeVirt's tests expect of Fedora.
PS1='[\u@\h \W]\$ '
