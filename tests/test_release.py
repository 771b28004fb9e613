# SPDX-License-Identifier: BSD-3-Clause
"""What a release needs agrees: versions, dependencies, workflows, citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import pairlearn

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))


def test_one_version_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\]", changes, re.M)[1]
    assert {
        pairlearn.__version__, PROJECT["version"], cited["version"],
        recipe["context"]["version"], newest,
    } == {PROJECT["version"]}  # fmt: skip
    assert cited["references"][0]["title"].startswith("Simple Stochastic and Online")


def test_the_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    needed = {entry.replace(" ", "") for entry in recipe["requirements"]["run"]}
    assert needed - {"python>=${{python_min}}"} == set(PROJECT["dependencies"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(path):
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for job in read.get("jobs", {}).values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in targets


def test_every_python_that_is_tried_is_named():
    read = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    tried = set(read["jobs"]["test"]["strategy"]["matrix"]["python"])
    named = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"]}
    assert tried <= named
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert lowest == min(tried, key=lambda version: tuple(map(int, version.split("."))))


def test_addresses_stand_in_one_place():
    hosts = re.compile(r"example\.org/pairlearn")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("src", "docs", ".github", "conda")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".yml", ".yaml", ".cff") and "_build" not in path.parts
        if hosts.search(path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert found == []
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())
    assert (ROOT / "src" / "pairlearn" / "py.typed").exists()
