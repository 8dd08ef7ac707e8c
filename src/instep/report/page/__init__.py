"""A report: runs as one page of HTML that needs nothing else."""
