"""Front doors of other tools, with the same signatures."""
