"""The site that `make docs` builds: the pages of docs/ and what they link to, and the reference from the docstrings."""

import re

import pullquote

project = "pullquote"
version = release = pullquote.__version__
author = "the pullquote maintainers"

# The source directory is the repository, so that links to records, notes and ARCHITECTURE.md work as they do in a clone.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "bench/record/**/*.md",
    "bench/notes/*.md",
    "bench/README.md",
    "demo/pages/README.md",
    "*.md",
]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
# Records and notes are not in the menu, and Pygments cannot parse curl commands over several lines as a shell session.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]

# Docstrings write names in single backticks.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
add_module_names = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "pullquote"
html_copy_source = False


def add_menu(_app, page, source):
    """Put the pages that docs/index.md links to into the menu, in its order."""
    if page == root_doc:
        names = dict.fromkeys(re.findall(r"\]\((?:\.\./)?([\w/-]+)\.md\)", source[0]))
        entries = [f"/{name}" if name.isupper() else name for name in names]
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(entries) + "\n```\n"


def setup(app):
    """Register what Sphinx calls."""
    app.connect("source-read", add_menu)
