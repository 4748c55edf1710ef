"""A scripted model behind real HTTP, in a process of its own: `python -m roundturn.models.scripted`."""
