"""The results of runs for people: the database, report.html, and the pytest plugin that writes both."""
