"""What both languages share: diagnostics with source positions, prebuilt parse tables."""
