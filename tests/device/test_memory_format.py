"""Results lie in memory as PyTorch's on the CPU do: channels last, column-major matrices."""

import pytest
import torch
from torch.nn import functional

IMAGES = {
    "conv2d": lambda x: functional.conv2d(x, torch.ones(4, 3, 3, 3, device=x.device)),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(
        x, torch.ones(3, 4, 3, 3, device=x.device)
    ),
    "max_pool2d": lambda x: functional.max_pool2d(x, 2, return_indices=True),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, 3),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: functional.group_norm(x, 3),
    "nearest": lambda x: functional.interpolate(x, scale_factor=2),
    "bilinear": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "antialias": lambda x: functional.interpolate(x, size=5, mode="bilinear", antialias=True),
    "reflect": lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "constant": lambda x: functional.pad(x, (1, 1, 1, 1)),
    "cat": lambda x: torch.cat([x, x], 1),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "relu": torch.relu,
    "softmax": lambda x: x.softmax(1),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 1),
    "sort": lambda x: x.sort(1),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "sum": lambda x: x.sum(1, keepdim=True),
    "clone": torch.clone,
}
VOLUMES = {
    "conv3d": lambda x: functional.conv3d(x, torch.ones(4, 3, 3, 3, 3, device=x.device)),
    "max_pool3d": lambda x: functional.max_pool3d(x, 2),
    "avg_pool3d": lambda x: functional.avg_pool3d(x, 2),
    "trilinear": lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear"),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "replicate": lambda x: functional.pad(x, (1,) * 6, mode="replicate"),
}


def strides(call, x):
    """Strides of the results and of the gradient."""
    x = x.requires_grad_()
    results = call(x)
    results = results if isinstance(results, tuple) else (results,)
    results[0].backward(torch.ones(results[0].shape, device=x.device))
    return [r.stride() for r in (*results, x.grad)]


@pytest.mark.parametrize("name", IMAGES)
def test_images_stay_channels_last(name, device):
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert strides(IMAGES[name], x.to(device)) == strides(IMAGES[name], x)


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_stay_channels_last(name, device):
    x = torch.rand(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d)
    assert strides(VOLUMES[name], x.to(device)) == strides(VOLUMES[name], x)


MATRICES = {
    "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT + torch.eye(3, device=a.device)),
    "eigh": lambda a, b: torch.linalg.eigh(a + a.mT),
    "inv": lambda a, b: torch.linalg.inv(a),
    "lu": lambda a, b: torch.linalg.lu(a),
    "lu_factor": lambda a, b: torch.linalg.lu_factor(a),
    "qr": lambda a, b: torch.linalg.qr(a),
    "solve": torch.linalg.solve,
    "solve_vectors": lambda a, b: torch.linalg.solve(a, b[..., 0]),
    "solve_from_the_right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "svd": lambda a, b: torch.linalg.svd(a),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_matrices_are_column_major(name, batch, device):
    a = torch.rand(*batch, 3, 3) + 3 * torch.eye(3)
    b = torch.rand(*batch, 3, 2)

    def run(device):
        results = MATRICES[name](a.to(device), b.to(device))
        return [r.stride() for r in (results if isinstance(results, tuple) else (results,))]

    assert run(device) == run("cpu")


def test_out_that_is_resized_takes_the_layout(device):
    a = torch.eye(3, device=device) * 4
    out = torch.empty(0, device=device)
    assert torch.linalg.cholesky(a, out=out) is out
    assert out.stride() == (1, 3)
    assert torch.equal(out.cpu(), torch.eye(3) * 2)
