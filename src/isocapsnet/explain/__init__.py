"""From a fitted network to regions, stability and evidence."""
