"""Trains a small classifier on scikit-learn's digits (1,797 real scans of handwritten digits, 8×8 pixels each).

This is the task of the demo: an ordinary training script that knows nothing of Muster. It prints its progress and
writes what it reached into a file.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler


def main() -> None:
    """Train for `--epochs`, then write `{"accuracy": …}` into `--result`."""
    options = _options()
    images, digits = load_digits(return_X_y=True)
    held_out = 0.25
    split = train_test_split(images, digits, test_size=held_out, random_state=0, stratify=digits)
    train_images, test_images, train_digits, test_digits = split
    scaler = StandardScaler().fit(train_images)
    train_images, test_images = scaler.transform(train_images), scaler.transform(test_images)
    print(f"{len(train_images)} images to learn from, {len(test_images)} held out, PID {os.getpid()}")

    model = MLPClassifier((options.hidden,), learning_rate_init=options.rate, random_state=0, batch_size=16)
    begun = time.monotonic()
    for epoch in range(1, options.epochs + 1):
        model.partial_fit(train_images, train_digits, classes=np.arange(10))
        if epoch == 1 or epoch % 5 == 0:
            accuracy = model.score(test_images, test_digits)
            elapsed = time.monotonic() - begun
            print(
                f"epoch {epoch:3}/{options.epochs}  loss {model.loss_:.4f}  accuracy {accuracy:.4f}  {elapsed:4.1f} s"
            )
    accuracy = float(model.score(test_images, test_digits))
    options.result.write_text(json.dumps({"accuracy": accuracy, "epochs": options.epochs}) + "\n", encoding="utf-8")
    print(f"final accuracy {accuracy:.4f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train a classifier on handwritten digits")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=512, help="neurons in the hidden layer")
    parser.add_argument("--rate", type=float, default=2e-4, help="learning rate")
    parser.add_argument("--result", type=Path, default=Path("result.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
