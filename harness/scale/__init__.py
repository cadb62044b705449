"""One sweep over several jobs or machines: shares of its ops, their joining, and lanes on a cluster."""
