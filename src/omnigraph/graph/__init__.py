"""The object a user holds: opening, reading, writing, branches and tags."""
