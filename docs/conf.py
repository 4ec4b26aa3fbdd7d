"""Settings of Sphinx for the site; ``docs/build.py`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import omegamax

project = "omegamax"
author = copyright = "The omegamax developers"
version = release = omegamax.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "_extensions.docstrings",
    "_extensions.formulas",
    "_extensions.links",
    "_extensions.pages",
    "_extensions.reference",
    "_extensions.sidebar",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True
# Types of other libraries have no page here.
nitpick_ignore_regex = [(r"py:.*", r"(?!omegamax\.).*")]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"show-inheritance": True}
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",  # beside the folder that Sphinx reads
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "subsection_order": "_extensions.tree.chapter_number",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("omegamax",),
    "reference_url": {"omegamax": None},
    "capture_repr": (),
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "parallel": True,
}

html_theme = "furo"
html_title = "omegamax"
html_static_path = [str(Path(__file__).parent / "_static")]
html_css_files = ["omegamax.css"]
html_js_files = [("omegamax.js", {"defer": "defer"})]
templates_path = [str(Path(__file__).parent / "_templates")]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/playground.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": [], "footer_icons": []}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
