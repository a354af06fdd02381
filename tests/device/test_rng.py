"""Random numbers: seeds, states, generators."""

import copy
import pickle

import pytest
import torch


def draw(generator=None):
    return torch.rand(100, device="tpu", generator=generator).cpu()


def test_seeds_fix_the_numbers():
    torch.manual_seed(1)
    first, second = draw(), draw()
    assert not first.equal(second)
    for seeding in (torch.manual_seed, torch.tpu.manual_seed, torch.tpu.manual_seed_all):
        seeding(1)
        assert draw().equal(first) and draw().equal(second)
    torch.manual_seed(2)
    assert not draw().equal(first)


def test_a_random_seed_differs():
    torch.tpu.seed()
    first = torch.tpu.initial_seed()
    torch.tpu.seed_all()
    assert torch.tpu.initial_seed() != first
    assert torch.seed() == torch.tpu.initial_seed()


def test_large_and_negative_seeds():
    for seed, stored in ((2**64 - 1, 2**64 - 1), (-1, 2**64 - 1), (-(2**63), 2**63)):
        torch.manual_seed(seed)
        assert torch.tpu.initial_seed() == stored
        assert torch.tpu.get_rng_state()[:8].tolist() == list(stored.to_bytes(8, "little"))
    with pytest.raises(RuntimeError, match="64 bits"):
        torch.tpu.manual_seed(2**64)


def test_the_state_is_sixteen_bytes_and_restores():
    torch.manual_seed(3)
    state = torch.tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.numel() == 16
    assert state.tolist() == [3] + 15 * [0]
    first = draw()
    assert not torch.tpu.get_rng_state().equal(state)
    assert torch.tpu.get_rng_state()[:8].equal(state[:8])
    torch.tpu.set_rng_state(state)
    assert draw().equal(first)
    [all_states] = torch.tpu.get_rng_state_all()
    second = draw()
    torch.tpu.set_rng_state_all([all_states])
    assert draw().equal(second)
    assert torch.accelerator.random.get_rng_state().equal(torch.tpu.get_rng_state())


def test_wrong_states_are_refused():
    for state, error in (
        (torch.zeros(8, dtype=torch.uint8), RuntimeError),
        (torch.zeros(16), TypeError),
        ([0] * 16, TypeError),
    ):
        with pytest.raises(error, match="RNG state"):
            torch.tpu.set_rng_state(state)
    generator = torch.Generator(device="tpu")
    with pytest.raises(RuntimeError, match="16 contiguous bytes"):
        generator.set_state(torch.zeros(8, dtype=torch.uint8))
    with pytest.raises(TypeError, match="ByteTensor"):
        generator.set_state(torch.zeros(16))


def test_fork_rng_restores():
    torch.manual_seed(4)
    with torch.random.fork_rng():
        first = draw()
    assert draw().equal(first)
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        draw()
    assert not draw().equal(first)


def test_generators_are_independent():
    one, other = torch.Generator(device="tpu"), torch.Generator("tpu:0")
    assert one.device == torch.device("tpu:0")
    assert one.initial_seed() == other.initial_seed()
    assert draw(one).equal(draw(other))
    one.manual_seed(5)
    state = torch.tpu.get_rng_state()
    first = draw(one)
    assert torch.tpu.get_rng_state().equal(state)
    assert not draw(other).equal(first)
    assert draw(one.manual_seed(5)).equal(first)
    assert one.seed() == one.initial_seed() != 5


def test_offsets():
    generator = torch.Generator(device="tpu").manual_seed(6)
    assert generator.get_offset() == 0
    first = draw(generator)
    after = generator.get_offset()
    assert after > 0
    second = draw(generator)
    generator.set_offset(after)
    assert draw(generator).equal(second)
    generator.set_offset(0)
    assert draw(generator).equal(first)


def test_copies_of_generators():
    generator = torch.Generator(device="tpu").manual_seed(7)
    draw(generator)
    copies = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    copies.append(generator.clone_state())
    expected = draw(generator)
    for same in copies:
        assert same.device == generator.device
        assert draw(same).equal(expected)


def test_graphsafe_states_are_shared():
    generator = torch.Generator(device="tpu").manual_seed(8)
    shared = generator.graphsafe_get_state()
    first = draw(generator)
    assert shared.get_offset() == generator.get_offset() > 0
    other = torch.Generator(device="tpu")
    other.graphsafe_set_state(shared)
    other.set_offset(0)
    assert generator.get_offset() == 0
    assert draw(other).equal(first)


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="Expected a 'tpu' device type for generator"):
        torch.rand(3, device="tpu", generator=torch.Generator())


def test_the_default_generator():
    [generator] = torch.tpu.default_generators
    torch.manual_seed(9)
    assert generator.initial_seed() == 9
    first = draw(generator)
    torch.manual_seed(9)
    assert draw().equal(first)
    with pytest.raises(IndexError):
        torch.tpu.default_generators[1]


@pytest.mark.parametrize("mode", ["strict", "debug"])
def test_distributions_reproduce_and_advance(mode):
    weights = torch.tensor([0.1, 0.2, 0.7], device="tpu")
    draws = {
        "rand": lambda: torch.rand(50, device="tpu"),
        "randn": lambda: torch.randn(50, device="tpu"),
        "randint": lambda: torch.randint(1000, (50,), device="tpu"),
        "randperm": lambda: torch.randperm(50, device="tpu"),
        "normal_": lambda: torch.empty(50, device="tpu").normal_(1, 2),
        "uniform_": lambda: torch.empty(50, device="tpu").uniform_(-1, 1),
        "exponential_": lambda: torch.empty(50, device="tpu").exponential_(),
        "bernoulli": lambda: torch.bernoulli(torch.full((50,), 0.5, device="tpu")),
        "dropout": lambda: torch.nn.functional.dropout(torch.ones(50, device="tpu"), 0.5),
        "multinomial": lambda: torch.multinomial(weights, 50, replacement=True),
    }
    with torch.tpu.eager_mode(mode):
        for name, sample in draws.items():
            torch.manual_seed(10)
            first, second = sample().cpu(), sample().cpu()
            assert not first.equal(second), name
            torch.manual_seed(10)
            assert sample().cpu().equal(first) and sample().cpu().equal(second), name


def test_modes_give_the_same_numbers():
    results = []
    for mode in ("strict", "debug"):
        with torch.tpu.eager_mode(mode):
            torch.manual_seed(11)
            results.append(torch.randn(64, device="tpu").cpu())
    assert results[0].equal(results[1])


def test_moments():
    torch.manual_seed(12)
    uniform = torch.rand(100_000, device="tpu").double().cpu()
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.005 and abs(uniform.std() - 12**-0.5) < 0.005
    normal = torch.randn(100_000, device="tpu").double().cpu()
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    permutation = torch.randperm(1000, device="tpu").cpu()
    assert permutation.sort().values.equal(torch.arange(1000))
    assert not permutation.equal(torch.arange(1000))
