"""What is seen: hot keys before a run, plans, answers and times with Saltwise and without, loads after a run."""
