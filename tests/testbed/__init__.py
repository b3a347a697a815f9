"""A machine room on one machine: hosts with a network, a name, a boot, processes and an sshd of their own.

`Testbed` starts them and ends them, `Host` is one of them with everything that can happen to it. Needs root,
iproute2 and openssh-server; nothing of the machine itself is changed but for a bridge and some network namespaces,
which are gone afterwards. `python -m tests.testbed 4` shows one for playing with.
"""
