"""Recovery of unfinished operations, which are rolled forward or back."""
