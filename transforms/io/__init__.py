"""Storage, BigQuery, HTTP and credentials."""
