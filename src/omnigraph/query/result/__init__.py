"""Query results: Arrow, text, JSON, SVG."""
