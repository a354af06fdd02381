"""A small CNN learns to read handwritten digits: `python examples/digits.py [DEVICE]`.

The 1,797 pictures of 8 x 8 pixels come with scikit-learn; every fifth is kept for the test.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS, BATCH = 12, 64


def data():
    """Training and test pictures `[n, 1, 8, 8]` in [0, 1] with their labels, on the CPU."""
    pictures, labels = load_digits(return_X_y=True)
    pictures = torch.tensor(pictures, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    labels = torch.tensor(labels)
    test = torch.arange(len(labels)) % 5 == 0
    return pictures[~test], labels[~test], pictures[test], labels[test]


def network():
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4 * 4, 10)),
    )


def train(device, epochs=EPOCHS):
    """Trains on `device`; returns the test accuracy and the number of pictures trained on."""
    torch.manual_seed(0)
    pictures, labels, test_pictures, test_labels = (part.to(device) for part in data())
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    # Whole batches only, in an order drawn on the CPU: every device sees the same steps.
    steps = len(labels) // BATCH
    for _ in range(epochs):
        for batch in torch.randperm(len(labels))[: steps * BATCH].view(steps, BATCH).to(device):
            loss = nn.functional.cross_entropy(model(pictures[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        right = model(test_pictures).argmax(1) == test_labels
    return right.float().mean().item(), epochs * steps * BATCH


def main(device="tpu"):
    accuracy, pictures = train(device)
    print(f"{100 * accuracy:.1f} % of the test pictures right after {pictures} training pictures")


if __name__ == "__main__":
    main(*sys.argv[1:])
