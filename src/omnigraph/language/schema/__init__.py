"""The `.pg` schema language: text to catalog, and back."""
