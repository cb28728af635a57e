"""The steps that bring a database from any earlier shape to that of `backend.store.tables`."""
