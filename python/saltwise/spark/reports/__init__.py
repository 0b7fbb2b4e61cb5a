"""Reports: hot keys before a run; plans, answers and times with Saltwise and without it; loads after a run."""
