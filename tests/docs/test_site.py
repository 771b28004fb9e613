# SPDX-License-Identifier: BSD-3-Clause
"""The gallery runs, the reference names everything, and every page can be reached."""

import importlib.util
import re
import runpy
import sys
import warnings

import pytest

import pairlearn

EXAMPLES = {
    # program: in which run it is tested, unless in the default one
    "plot_additive_shapes": "thorough",
    "plot_bounds": None,
    "plot_drifting_stream": "slow",
    "plot_error_entropy": "slow",
    "plot_when_pairs_help": None,
    "plot_metric_learning": "slow",
    "plot_private_auc": "slow",
    "plot_ranking": "slow",
    "plot_ratings": "thorough",
    "plot_same_bits": "slow",
    "plot_survival": "thorough",
    "plot_step_size_grid": None,
}


def test_every_program_of_the_gallery_is_tested(root):
    assert {path.stem for path in (root / "examples").glob("plot_*.py")} == set(EXAMPLES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=getattr(pytest.mark, run) if run else ())
        for name, run in EXAMPLES.items()
    ],
)
def test_gallery(root, name, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.setattr(sys, "argv", [name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(root / "examples" / f"{name}.py"), run_name="__main__")
    figures = plt.get_fignums()
    assert figures
    for number in figures:
        drawn = [ax for ax in plt.figure(number).axes if ax.lines or ax.collections or ax.images]
        assert drawn
    plt.close("all")


@pytest.fixture(scope="module")
def reference(root, tmp_path_factory):
    where = root / "docs" / "_extensions" / "public_names.py"
    spec = importlib.util.spec_from_file_location("public_names", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("api")
    module.write_pages(folder)
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.rst")}


def test_the_reference_lists_every_public_name_once(reference):
    listed = [
        line.strip()
        for text in reference.values()
        for line in text.splitlines()
        if re.fullmatch(r"   [A-Za-z_]\w*", line)
    ]
    for name in pairlearn.__all__:
        if not name.startswith("__"):
            assert listed.count(name) >= 1, name
    top_level = [name for page in ("estimators", "parts", "solvers") for name in re.findall(
        r"^   (\w+)$", reference[page], flags=re.MULTILINE)]  # fmt: skip
    assert len(top_level) == len(set(top_level))


def test_pages_of_the_reference_have_no_empty_tables(reference):
    for page, text in reference.items():
        assert not re.search(r":nosignatures:\n\n+(?!   \w)", text), page


def test_the_first_screen_is_short(root):
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    # who it is for stands before anything else, the command within the first screen
    assert any("pairlearn train" in line for line in lines[:15])


def test_code_in_pages_is_run(root):
    """Every Python block in a page is a doctest, so that the default run executes it."""
    for page in sorted((root / "docs").rglob("*.md")):
        if {"_build", "auto_examples"} & set(page.parts):
            continue
        blocks = re.findall(
            r"^```(?:python|py|pycon)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M
        )
        for block in blocks:
            assert block.lstrip().startswith(">>> "), f"{page.name}: {block[:80]}"


def test_every_guide_has_a_figure_and_every_figure_a_page(root):
    drawn = set()
    for page in sorted((root / "docs").rglob("*.md")):
        if {"_build", "auto_examples"} & set(page.parts):
            continue
        text = page.read_text(encoding="utf-8")
        mine = re.findall(r"^\.\. plot:: (\S+)\n   :alt: \S", text, flags=re.MULTILINE)
        # Networks would need PyTorch to draw one.
        if page.parent.name == "guide" and page.stem not in ("index", "torch"):
            assert mine or "{image}" in text, page.name
        drawn.update(mine)
    assert drawn == {path.name for path in (root / "docs" / "figures").glob("*.py")}


@pytest.mark.thorough
def test_figures_of_the_guide_are_drawn(root):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    for path in sorted((root / "docs" / "figures").glob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(path))
        assert all(ax.has_data() for ax in plt.gcf().axes), path.name
        plt.close("all")


def test_paragraphs_and_cells_are_short(root):
    """What users read has paragraphs below 200 words, and cells of tables below 100."""
    for page in [*(root / "docs").glob("*.md"), *(root / "docs" / "guide").glob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for part in re.split(r"\n\s*\n", text):
            rows = part.strip().splitlines() if part.lstrip().startswith("|") else []
            longest = max((len(cell.split()) for row in rows for cell in row.split("|")), default=0)
            assert longest < 100, f"{page.name}: a cell of {longest} words in {part[:80]!r}"
            for item in [] if rows else re.split(r"\n(?=[-*] )", part):
                n_words = len(item.split())
                assert n_words < 200, f"{page.name}: {n_words} words in {item[:80]!r}"


def _slug(heading):
    """Return the anchor of a heading: lower case, no punctuation, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_links_lead_to_pages_and_headings(root):
    """A link names a page that there is, and after # a heading of the three upper levels."""
    n_anchors = 0
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if {"_build", "auto_examples"} & set(page.parts):
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]*?)\)", text):
            path, _, anchor = target.partition("#")
            if ":" in target or (path and not path.endswith(".md")):
                continue  # another site, or a page that the build writes
            other = (page.parent / path).resolve() if path else page
            assert other.exists(), f"{page.name}: {target}"
            if anchor:
                n_anchors += 1
                found = re.findall(r"^#{1,3} (.+)$", other.read_text(encoding="utf-8"), re.M)
                assert anchor in map(_slug, found), f"{page.name}: {target}"
    assert n_anchors > 10
