"""Row filters: one model, rendered as SQL for Lance and evaluated over Arrow."""
