"""Training as TT-Buda does it: forward, backward and optimizer are programs of their own, with queues between them."""
