"""The balancer: how each op of a Buda graph may be laid over cores (`legalizer`), and which way it takes (`policies`)."""
