"""What happens to an operation that did not finish: found, classified, rolled forward or back, audited."""
