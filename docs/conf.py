# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the documentation site; `make docs` builds it."""

import logging
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))

import public_names  # noqa: E402

import pairlearn  # noqa: E402

project = "pairlearn"
author = "The pairlearn developers"
project_copyright = author
version = release = pairlearn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "linked_names",
    "mathml",
    "written_formulas",
]
exclude_patterns = ["_build", "_templates", "_extensions", "figures"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Figures of the guide are drawn by the library itself, by the programs in docs/figures.
plot_basedir = str(HERE / "figures")
plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (6.4, 3.2),
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "path",
}
plot_apply_rcparams = True

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "pairlearn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"getting-started": [], "changelog": []}

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(?:^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "show_memory": False,
    "image_scrapers": ("matplotlib",),
    "doc_module": ("pairlearn",),
    "backreferences_dir": None,
    "nested_sections": False,
    "write_computation_times": False,
}


# What an earlier build wrote for programs that are gone would be pages without a way to them.
for _path in (HERE / "auto_examples").glob("plot_*"):
    _stem = _path.name.split(".")[0].removesuffix("_codeobj")
    if _path.is_file() and not (HERE.parent / "examples" / f"{_stem}.py").exists():
        _path.unlink()


class _EmptyFolders(logging.Filter):
    """A pattern in a list of pages may match nothing yet."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the warning about it."""
        return "toctree glob pattern" not in str(record.msg)


logging.getLogger("sphinx.sphinx.directives.other").addFilter(_EmptyFolders())


def _skip(app, what, name, obj, skip, options):
    """Leave out the methods that scikit-learn adds for metadata routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _without_last_blank_line(app, docname, source):
    """Drop the blank line that ends a doctest in Markdown; on a page it is only a gap."""
    source[0] = re.sub(r"^(```python\n.*?)\n\n```$", r"\1\n```", source[0], flags=re.S | re.M)


def setup(app):
    """Connect to the build."""
    app.connect("source-read", _without_last_blank_line)
    app.connect("autodoc-skip-member", _skip)


# The reference lists what the library exports, so that no public name is forgotten.
autosummary_generate = public_names.write_pages(HERE / "api" / "generated")
