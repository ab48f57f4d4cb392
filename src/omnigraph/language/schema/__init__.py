"""The `.pg` schema language."""
