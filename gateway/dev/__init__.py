"""`dev` and `demo`: everything that a home needs, as processes of this machine."""
