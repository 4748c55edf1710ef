"""Fixtures that every part of the suite uses."""
