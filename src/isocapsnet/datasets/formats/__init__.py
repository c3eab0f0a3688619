"""One module per file format; what a reader must offer is in :class:`~isocapsnet.datasets.reading.Reader`."""
