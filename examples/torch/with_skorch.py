# SPDX-License-Identifier: BSD-3-Clause
"""A pairwise loss in skorch: the criterion of a scikit-learn estimator, chosen by grid search."""

import numpy as np
import skorch
import torch
from sklearn.model_selection import GridSearchCV

from pairlearn import roc_auc
from pairlearn.torch import AUCLoss


class Scorer(torch.nn.Module):
    """A small network with one score."""

    def __init__(self, n_features=4, width=32):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
        )

    def forward(self, x):
        """Return a score for each example."""
        return self.layers(x)


def auc(net, X, y):
    """Return the AUC of the scores."""
    return roc_auc(y, net.predict(X)[:, 0])


def main(n_epochs=20):
    """Choose a margin by cross-validated AUC, and say how good it is on new examples."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)).astype(np.float32)
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 5.0).astype(np.int64)
    net = skorch.NeuralNet(
        Scorer,
        criterion=AUCLoss,
        criterion__loss="squared_hinge",
        optimizer=torch.optim.Adam,
        lr=1e-2,
        batch_size=128,
        max_epochs=n_epochs,
        train_split=None,
        verbose=0,
    )
    search = GridSearchCV(net, {"criterion__margin": [0.5, 2.0]}, scoring=auc, cv=2)
    search.fit(X[:1500], y[:1500])
    found = auc(search.best_estimator_, X[1500:], y[1500:])
    print(f"margin {search.best_params_['criterion__margin']}, test AUC {found:.3f}")
    return found


if __name__ == "__main__":
    main()
