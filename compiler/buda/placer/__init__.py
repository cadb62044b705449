"""The placer, which puts op models on cores, epoch after epoch."""
