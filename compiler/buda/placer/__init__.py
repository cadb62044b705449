"""The placer: op models onto cores, epoch after epoch."""
