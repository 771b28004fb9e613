# SPDX-License-Identifier: BSD-3-Clause
"""The examples run: a loop of one's own, Lightning, skorch; and the package as a whole."""

import importlib.util
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from numpydoc.validate import validate

import pairlearn.torch


def program(root, name):
    path = root / "examples" / "torch" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_loop(root, capsys):
    module = program(root, "plain_loop")
    assert module.main() > 0.97
    assert "test AUC" in capsys.readouterr().out
    X, y = module.data(400)
    whole, _ = module.train(X, y, n_epochs=4)
    _, state = module.train(X, y, n_epochs=2)
    resumed, _ = module.train(X, y, n_epochs=4, state=state)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


# What these packages deprecate among themselves is not ours to mend.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "package"), [("with_lightning", "lightning"), ("with_skorch", "skorch")]
)
def test_other_frameworks(name, package, root):
    pytest.importorskip(package, reason=f"needs {package}: make test-torch")
    assert program(root, name).main() > 0.95


def test_public_names_are_sorted_and_documented():
    assert pairlearn.torch.__all__ == sorted(set(pairlearn.torch.__all__))
    assert dir(pairlearn.torch) == pairlearn.torch.__all__
    with pytest.raises(AttributeError, match="has no attribute 'AUC'"):
        pairlearn.torch.AUC  # noqa: B018
    for name in pairlearn.torch.__all__:
        value = getattr(pairlearn.torch, name)
        found = validate(f"{value.__module__}.{value.__name__}")["errors"]
        wrong = [text for code, text in found if code in ("GL08", "PR01", "PR02", "SS03", "SS05")]
        assert not wrong, (name, wrong)


def test_the_guide_tells_of_every_public_name(root):
    page = (root / "docs" / "guide" / "torch.md").read_text(encoding="utf-8")
    assert not [name for name in pairlearn.torch.__all__ if f"`{name}" not in page]


def test_without_torch_one_line_names_the_cure():
    code = "import sys; sys.modules['torch'] = None; import pairlearn.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: pairlearn.torch needs PyTorch, which is not installed: "
        'pip install "pairlearn[torch]"'
    )


def test_nothing_else_imports_torch():
    code = (
        "import sys; import pairlearn; [getattr(pairlearn, n) for n in pairlearn.__all__]; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
