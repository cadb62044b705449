"""The balancer: finds the ways to put each op of a Buda graph on cores (`legalizer`), and picks one (`policies`)."""
