"""Control objects on a local disk or an object store: compare-and-swap, leases, clocks."""
