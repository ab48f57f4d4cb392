"""Three-way merge, entity by entity, on ids."""
