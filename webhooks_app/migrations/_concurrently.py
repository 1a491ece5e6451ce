"""Index operations that stop nobody on PostgreSQL; elsewhere they are the ordinary ones.

PostgreSQL builds such an index outside of a transaction, so a migration that uses them is not atomic. Django's
own (`django.contrib.postgres.operations`) cannot be imported where psycopg is not installed.
"""

from django.db import migrations


def _build(schema_editor, model, index):
    """Build an index; one that an interrupted run left behind, unusable, is replaced."""
    options = _options(schema_editor)
    if options:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(index.name)}")
    schema_editor.add_index(model, index, **options)


def _options(schema_editor):
    return {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}


class AddIndex(migrations.AddIndex):
    """Adds an index."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            _build(schema_editor, model, self.index)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.remove_index(model, self.index, **_options(schema_editor))


class RemoveIndex(migrations.RemoveIndex):
    """Removes an index."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            index = from_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
            schema_editor.remove_index(model, index, **_options(schema_editor))

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
            _build(schema_editor, model, index)
