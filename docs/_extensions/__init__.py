"""What the site needs beyond Sphinx: where pages come from, how links, formulas and docstrings are read."""
