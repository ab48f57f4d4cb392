"""Row filters: one model, rendered for Lance and evaluated over Arrow."""
