"""The generations of TPUs that can be asked about.

Peaks are published figures, of one device as the compiler sees it: half a chip for v4 and tpu7x.
"""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A generation.

    Attributes:
        single: The topology with one chip.
        hbm: Bytes that the compiler may use on a device, as libtpu 0.0.52 says when it refuses.
        flops: Bfloat16 operations per second.
        bandwidth: Bytes per second between memory and core.
        matrix: Rows and columns of the matrix unit.
    """

    name: str
    single: str
    hbm: float
    flops: float
    bandwidth: float
    matrix: int


_GIB = 1 << 30

GENERATIONS = (
    Target("v4", "v4:1x1x1", _GIB * 15.25, 137.5e12, 614e9, 128),
    Target("v5e", "v5e:1x1", _GIB * 15.75, 197e12, 819e9, 128),
    Target("v5p", "v5p:1x1x1", _GIB * 95.73, 459e12, 2765e9, 128),
    Target("v6e", "v6e:1x1", _GIB * 31.24, 918e12, 1640e9, 256),
    Target("tpu7x", "tpu7x:1x1x1", _GIB * 94.74, 1153.5e12, 3690e9, 256),
)


def target_of(topology: str) -> Target:
    """The generation of a topology as ``v6e:2x2``.

    Raises:
        ValueError: TPU4021, it is not known.
    """
    name = topology.partition(":")[0].lower()
    for target in GENERATIONS:
        if target.name == name:
            return target
    known = ", ".join(target.single for target in GENERATIONS)
    raise ValueError(f"TPU4021: the topology `{topology}` is not known; hint: one of {known}")
