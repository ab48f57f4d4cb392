"""What a writer leaves on the store before its first effect: sidecar, lease, place in the queue."""
