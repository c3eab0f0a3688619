"""One module per file format. Each returns plain arrays or a ``Study``; none knows the others."""
