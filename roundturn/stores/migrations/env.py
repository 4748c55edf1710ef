"""Alembic's entry: it is handed a connection that is already in a transaction."""

from alembic import context

from roundturn.stores.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller's transaction is the one
)
context.run_migrations()
