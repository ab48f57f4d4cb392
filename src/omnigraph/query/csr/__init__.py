"""CSR adjacency: builds it, carries it over to newer versions, and traverses it."""
