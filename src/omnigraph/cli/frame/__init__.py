"""What every command shares: options, configuration, graph scopes, help and output."""
