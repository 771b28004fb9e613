# SPDX-License-Identifier: BSD-3-Clause
"""Check what `make dist` has built: ``python .ci/dist.py dist python3.11 python3.12 ...``.

The wheel must hold the package, its type marker and its licence, and nothing else; the source
archive what is needed to build and test; the metadata must name what pyproject.toml names. The
wheel is then installed in a clean environment of each Python that is there, and a smoke test runs:
fit, a stream, a private model, and the program on a small table.
"""

import email
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

SMOKE = """
import json, pathlib, subprocess, sys, warnings
import numpy as np
import pairlearn
from pairlearn import AUCClassifier, PrivateAUCClassifier

assert "site-packages" in pairlearn.__file__, pairlearn.__file__
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = (X[:, 0] + 0.5 * rng.normal(size=600) > 0).astype(int)
assert AUCClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
stream = AUCClassifier(random_state=0)
for k in range(0, 600, 50):
    stream.partial_fit(X[k : k + 50], y[k : k + 50], classes=[0, 1])
assert stream.score(X, y) > 0.85
private = PrivateAUCClassifier(5.0, bounds=(-4.0, 4.0), labels=(0, 1)).fit(X, y)
assert private.certificate_.private
pairs = zip(X[:, 0], y)
rows = "".join(f"{a:.3f},{'pb'[b]},{'Yes' if b else 'No'}\\n" for a, b in pairs)
pathlib.Path("t.csv").write_text("x,plan,gone\\n" + rows)

def program(*arguments):
    command = [sys.executable, "-m", "pairlearn", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

program("train", "t.csv", "--label", "gone")
assert json.loads(program("evaluate", "t.safetensors", "t.csv", "--json"))["auc"] > 0.9
assert program("--version").split()[1] == pairlearn.__version__
"""


def fail(message: str) -> None:
    """End with a message."""
    raise SystemExit(f"make dist: {message}")


def check_wheel(path: Path) -> None:
    """Check the names in a wheel, and its metadata."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        found = email.message_from_bytes(wheel.read(metadata))
        [entries] = [name for name in names if name.endswith("entry_points.txt")]
        if "pairlearn = pairlearn.cli:main" not in wheel.read(entries).decode():
            fail(f"{path.name} has no program")
    odd = [n for n in names if not n.startswith(("pairlearn/", "pairlearn-"))]
    if odd or any("__pycache__" in name for name in names):
        fail(f"{path.name} holds more than the package: {odd[:5]}")
    here = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*.py")}
    if missing := sorted((here | {"pairlearn/py.typed"}) - set(names)):
        fail(f"{path.name} lacks {', '.join(missing[:5])}")
    if not any(name.endswith("licenses/LICENSE") for name in names):
        fail(f"{path.name} lacks the licence")
    for field, value in (
        ("Name", PROJECT["name"]),
        ("Version", PROJECT["version"]),
        ("Requires-Python", PROJECT["requires-python"]),
    ):
        if found[field] != value:
            fail(f"{field} is {found[field]!r}, pyproject.toml says {value!r}")
    needed = [e for e in found.get_all("Requires-Dist", []) if "extra ==" not in e]
    if sorted(needed) != sorted(PROJECT["dependencies"]):
        fail(f"the wheel needs {needed}")
    if len(found.get_payload()) < 500:
        fail("the description is empty; README.md should be in it")


def check_archive(path: Path) -> None:
    """Check that the source archive can be built and tested from."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py",
                 "src/pairlearn/__init__.py"):  # fmt: skip
        if name not in names:
            fail(f"{path.name} lacks {name}")
    if odd := [name for name in names if name.startswith((".venv", "dist", "report"))]:
        fail(f"{path.name} holds {odd[:3]}")


def try_wheel(python: str, wheel: Path) -> bool:
    """Install the wheel in a clean environment and run the smoke test; False without a Python."""
    if shutil.which(python) is None:
        return False
    runs = subprocess.run([python, "-c", ""], capture_output=True, check=False)
    if runs.returncode:
        return False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/env"], check=True)
        own = f"{folder}/env/bin/python"
        subprocess.run([own, "-m", "pip", "install", "--quiet", str(wheel.resolve())], check=True)
        subprocess.run([own, "-I", "-c", SMOKE], check=True, cwd=folder)
    return True


def main() -> None:
    """Check everything in a folder."""
    folder, pythons = Path(sys.argv[1]), sys.argv[2:]
    [wheel], [archive] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_wheel(wheel)
    check_archive(archive)
    tried = [python for python in pythons if try_wheel(python, wheel)]
    if not tried:
        fail(f"none of {', '.join(pythons) or 'no Python'} is installed")
    print(f"{wheel.name} and {archive.name} are sound; the wheel runs on {', '.join(tried)}")


if __name__ == "__main__":
    main()
