"""The documentation's configuration: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "python")]

project = "oneflow"
author = copyright = "the oneflow authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference"]
# The pages below api/ are the op table for readers of the repository; the reference says the same and more.
exclude_patterns = ["api", "requirements.txt"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

html_theme = "furo"
html_title = "oneflow"
html_static_path = ["_static"]
html_css_files = ["oneflow.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "tango"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

add_module_names = False
autodoc_typehints = "none"  # They stand in the signature.
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries = False
