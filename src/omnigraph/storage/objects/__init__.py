"""Objects on a disk or in a bucket: compare-and-swap, leases, clocks."""
