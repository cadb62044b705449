"""What runs in Superset's own virtual environment: it imports Superset, the standard library, and nothing of ours."""
