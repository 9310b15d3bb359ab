"""What scripts/chaos.py is made of: jobs, those who run them and call, the run, and the judgement."""
