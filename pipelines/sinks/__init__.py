"""Services that are told of finished runs."""
