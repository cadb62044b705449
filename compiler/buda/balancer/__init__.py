"""The balancer: how each op of a Buda graph may be laid over cores (`legalizer`), which way it takes (`policies`)."""
