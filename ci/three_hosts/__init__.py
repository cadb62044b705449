"""A cluster of three hosts that share no file system, each made of namespaces of this machine; one of them dies.

Nothing leaves the machine: the hosts are on a bridge in a network namespace of its own, without a route to any other.
"""
