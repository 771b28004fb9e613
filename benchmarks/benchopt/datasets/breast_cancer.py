# SPDX-License-Identifier: BSD-3-Clause
"""The 569 examples of breast cancer that ship with scikit-learn, half of them for testing."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Scaled features, labels -1 and +1."""

    name = "breast_cancer"
    parameters = {"seed": [0]}

    def get_data(self):
        """Return training and test part."""
        X, y = load_breast_cancer(return_X_y=True)
        y = 2.0 * y - 1.0
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.5, stratify=y, random_state=self.seed
        )
        scaler = StandardScaler().fit(X)
        return {
            "X": scaler.transform(X),
            "y": y,
            "X_test": scaler.transform(X_test),
            "y_test": y_test,
        }
