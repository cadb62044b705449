"""What a run found, for people: the results database, report.html, and the pytest plugin that writes both."""
