"""What a writer puts on the store before its first effect: sidecar, lease, queue entry."""
