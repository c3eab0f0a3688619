"""From plain arrays and the content of ``results.json`` to figures and one self-contained HTML page."""
