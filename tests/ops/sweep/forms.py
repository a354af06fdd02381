"""How an operator is called, and what has to agree with the CPU."""

import random
import re

import torch
from torch.testing._internal import common_methods_invocations as database

from . import compare, draws, layouts, trees
from .cases import SEED
from .compare import Mismatch

# The database seeds what draws random numbers by itself; here that is the caller's business.
database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


# Operators whose results lie on the CPU as its libraries leave them, which no other device follows:
# MKL's Fourier transforms have the dimension transformed last first, LAPACK's least squares are
# the upper rows of the right-hand sides.
OWN_STRIDES = ("fft.", "stft", "istft", "linalg.lstsq")

# Operators whose second result names one of equal elements, PyTorch leaves open which: where their
# `dim` stands among the arguments after the first. Forward results are compared by the elements
# named; what else depends on the choice is compared where all elements of a slice differ.
TIES = {"kthvalue": 1, "mode": 0, "topk": 1}


class NotACase(Exception):
    """The CPU refuses the call, so that there is nothing to compare with."""


class Subject:
    """An operator with a dtype on a device, and how to compare it with the CPU."""

    def __init__(self, op, dtype, device):
        self.op, self.dtype, self.device = op, dtype, device
        self.known = compare.tolerances(op)
        self.invariant = draws.INVARIANTS.get(op.full_name)

    def samples(self, requires_grad=False):
        torch.manual_seed(SEED)
        return list(self.op.sample_inputs("cpu", self.dtype, requires_grad=requires_grad))

    def agree(self, run, tree, functional=False):
        """Raises `Mismatch` unless `run(tree)` does the same on the device as on the CPU.

        Compared are the results and, because an operator must not write what it only reads, every
        storage that the arguments lie in; of a `functional` call the strides of the results too.
        """
        expected, storages, drew = self.on_cpu(run, tree)
        if drew:
            again, _, _ = self.on_cpu(run, tree, seed=2)
            moved = lambda: trees.move(tree, self.device)  # noqa: E731
            return draws.check(run, moved, again, expected, self.invariant if functional else None)
        moved = trees.move(tree, self.device)
        got = run(moved.tree)
        if trees.on(moved.tree, self.device):
            self.on_device(got, expected)
        exact = lambda: _wide(run, tree)[0]  # noqa: E731
        values = self.op.full_name not in draws.UNDEFINED
        compare.same(got, expected, self.known, exact, values)
        if functional and not self.op.full_name.startswith(OWN_STRIDES):
            compare.same_strides(got, expected)
        exact = lambda: _wide(run, tree)[1]  # noqa: E731
        try:
            compare.same(moved.bases, storages, self.known, exact, values)
        except Mismatch as found:
            raise Mismatch(f"storages of the arguments: {found}") from None

    def accept(self, run, tree):
        """Raises `Mismatch` unless the device refuses what the CPU refuses, in the same class."""
        try:
            self.on_cpu(run, tree)
        except NotACase as refused:
            error = refused.__cause__
            try:
                run(trees.move(tree, self.device).tree)
            except type(error):
                return
            raise Mismatch(f"not refused: {_first_line(error)}") from None
        run(trees.move(tree, self.device).tree)

    def on_cpu(self, run, tree, seed=1):
        """Results, storages after the call, and whether random numbers were drawn."""
        moved = trees.move(tree, "cpu")
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        try:
            results = run(moved.tree)
        except Exception as error:
            raise NotACase from error
        return results, moved.bases, not torch.equal(before, torch.get_rng_state())

    def on_device(self, got, expected):
        for here, there in zip(trees.leaves(got), trees.leaves(expected)):
            if isinstance(here, torch.Tensor) and isinstance(there, torch.Tensor):
                if here.device.type != self.device:
                    raise Mismatch(f"a result is on {here.device}")


def _wide(run, tree):
    moved = trees.move(tree, "cpu", wide=True)
    torch.manual_seed(1)
    try:
        return run(moved.tree), moved.bases
    except Exception:
        return None, None


def call(subject, tree):
    """The operator's results; elements in the place of indices that may differ."""
    first, args, kwargs = tree
    results = subject.op(first, *args, **kwargs)
    dim = _named_along(subject, tree)
    if dim is None:
        return results
    values, index = results
    index = index if index.ndim == first.ndim else index.unsqueeze(dim)
    return values, first.gather(dim, index)


def _named_along(subject, tree):
    """The dimension along which one of `TIES` chooses, None where there is no choice."""
    first, args, kwargs = tree
    position = TIES.get(subject.op.full_name)
    if position is None or first.numel() == 0 or first.ndim == 0:
        return None
    return kwargs.get("dim", args[position] if len(args) > position else -1)


def _expect_one_choice(subject, tree):
    """Raises `NotACase` where elements that the operator chooses from are equal."""
    dim = _named_along(subject, tree)
    if dim is None:
        return
    ordered = tree[0].detach().sort(dim).values
    count = ordered.shape[dim] - 1
    low, high = ordered.narrow(dim, 0, count), ordered.narrow(dim, 1, count)
    if bool((low == high).any()):
        raise NotACase


def arguments(sample):
    return (sample.input, tuple(sample.args), dict(sample.kwargs))


def forward(subject, sample):
    def run(tree):
        return sample.output_process_fn_grad(call(subject, tree))

    with torch.no_grad():
        subject.agree(run, arguments(sample), functional=True)


def gradient(subject, sample):
    def run(tree):
        first, args, kwargs = tree
        results = sample.output_process_fn_grad(subject.op(first, *args, **kwargs))
        ins = [t for t in trees.tensors(tree) if t.requires_grad]
        return _grad(trees.tensors(results), ins)

    _expect_one_choice(subject, arguments(sample))
    subject.agree(run, arguments(sample))


def gradgrad(subject, sample):
    """Gradients of the gradient, by the arguments and by what it was multiplied with."""

    def run(tree):
        first, args, kwargs = tree
        results = sample.output_process_fn_grad(subject.op(first, *args, **kwargs))
        ins = [t for t in trees.tensors(tree) if t.requires_grad]
        outs = [t for t in trees.tensors(results) if t.requires_grad]
        given = [_cotangent(t).requires_grad_() for t in outs]
        once = _grad(outs, ins, given, create_graph=True)
        return _grad([t for t in once if t is not None], [*ins, *given])

    _expect_one_choice(subject, arguments(sample))
    subject.agree(run, arguments(sample))


def _grad(outs, ins, given=None, create_graph=False):
    """What `torch.autograd.grad` gives for those of `outs` that have a gradient."""
    outs = [t for t in outs if t.requires_grad]
    if not outs or not ins:
        raise NotACase
    given = given or [_cotangent(t) for t in outs]
    return torch.autograd.grad(outs, ins, given, create_graph=create_graph, allow_unused=True)


def _cotangent(result):
    generator = torch.Generator().manual_seed(result.numel())
    dtype = torch.complex64 if result.is_complex() else torch.float32
    drawn = torch.randn(result.shape, generator=generator, dtype=dtype)
    return drawn.to(result.device, result.dtype)


def inplace(subject, sample):
    variant = subject.op.get_inplace()
    if variant is None or sample.broadcasts_input:
        raise NotACase

    def run(tree):
        first, args, kwargs = tree
        result = variant(first, *args, **kwargs)
        if isinstance(result, torch.Tensor) and result is not first:
            raise Mismatch("the result is not the first argument")
        return result

    with torch.no_grad():
        subject.agree(run, arguments(sample))


def out(subject, sample):
    """Into a view of the right size, into an empty tensor, and into other dtypes."""
    op = subject.op
    if not op.supports_out:
        raise NotACase
    first, args, kwargs = arguments(sample)
    _expect_one_choice(subject, (first, args, kwargs))
    with torch.no_grad():
        copy = trees.move((first, args, kwargs), "cpu").tree
        try:
            results = op(copy[0], *copy[1], **copy[2])
        except Exception as error:
            raise NotACase from error
        if not trees.tensors(results) or len(trees.tensors(results)) != len(trees.leaves(results)):
            raise NotACase

        def run(tree):
            inputs, target = tree
            given = op(inputs[0], *inputs[1], **inputs[2], out=target)
            for mine, theirs in zip(trees.tensors(given), trees.tensors(target)):
                if mine is not theirs:
                    raise Mismatch("the result is not `out`")
            laid = not op.full_name.startswith(OWN_STRIDES)
            return [(t, t.stride()) if laid and t.numel() else t for t in trees.tensors(given)]

        for kind in (_into_view, _into_empty, _into_narrow, _into_wide):
            target = trees.map_leaves(kind, results)
            target = tuple(target) if isinstance(results, tuple) else target
            check = subject.agree if kind in (_into_view, _into_empty) else subject.accept
            _labelled(f"out= {kind.__doc__}", check, run, ((first, args, kwargs), target))


def _into_view(result):
    """a view"""
    return layouts.relay(torch.zeros_like(result).resolve_conj(), "step")


def _into_empty(result):
    """an empty tensor"""
    return torch.empty(0, dtype=result.dtype)


def _into_narrow(result):
    """of a narrower dtype"""
    narrow = torch.int64 if result.is_floating_point() or result.is_complex() else torch.bool
    return torch.zeros(result.shape, dtype=narrow)


def _into_wide(result):
    """of a wider dtype"""
    wide = trees.WIDE.get(result.dtype, torch.float32)
    return torch.zeros(result.shape, dtype=wide)


def _labelled(label, check, run, tree):
    try:
        check(run, tree)
    except NotACase:
        pass
    except Mismatch as found:
        raise Mismatch(f"{label}: {found}") from None
    except Exception as error:
        error.add_note(label)
        raise


def other_layouts(subject, sample):
    """Functional and in-place calls with arguments that lie anyhow in their storages."""
    choose = random.Random(f"{SEED}/{trees.describe(arguments(sample))}")
    op, seen = subject.op, 0
    for kinds in (layouts.KINDS, layouts.WRITABLE):
        variant = op if kinds is layouts.KINDS else op.get_inplace()
        if variant is None or (variant is not op and sample.broadcasts_input):
            continue
        chosen = []

        def next_kind():
            chosen.append(choose.choice(kinds))
            return chosen[-1]

        def run(tree):
            if variant is op:
                return sample.output_process_fn_grad(call(subject, tree))
            return variant(tree[0], *tree[1], **tree[2])

        with torch.no_grad():
            tree = layouts.relaid(arguments(sample), next_kind)
            label = "in-place" if variant is not op else "functional"
            _labelled(f"{label}, {', '.join(chosen)}", subject.agree, run, tree)
        seen += 1
    if not seen:
        raise NotACase


def other_sizes(subject, sample):
    """The sample without elements along its first and its last dimension, and with one alone."""

    def run(tree):
        return call(subject, tree)

    with torch.no_grad():
        given = arguments(sample)
        for tree in (layouts.emptied(given, 0), layouts.emptied(given, -1)):
            if tree is not None:
                _labelled(f"no elements: {trees.describe(tree)}", subject.agree, run, tree)
        tree = layouts.zero_dimensional(given)
        if tree is not None:
            _labelled(f"0-dim: {trees.describe(tree)}", subject.agree, run, tree)


def errors(subject, wrong):
    """`wrong` is an ErrorInput: the device says what the CPU says."""
    tree = arguments(wrong.sample_input)

    def run(tree):
        return subject.op(tree[0], *tree[1], **tree[2])

    try:
        subject.on_cpu(run, tree)
    except NotACase as refused:
        expected = refused.__cause__
    else:
        raise NotACase
    moved = trees.move(tree, subject.device).tree
    try:
        # Bounds are checked on the device: what is wrong with them shows when results are read.
        for result in trees.tensors(run(moved)):
            result.cpu()
        torch.get_device_module(subject.device).synchronize()
    except Exception as error:
        _same_error(error, expected, wrong)
    else:
        raise Mismatch(f"not refused: {type(expected).__name__}: {_first_line(expected)}")


def _same_error(error, expected, wrong):
    said = f"{type(error).__name__}: {_first_line(error)}"
    wanted = f"{type(expected).__name__}: {_first_line(expected)}"
    if type(error) is not type(expected):
        raise Mismatch(f"`{said}` instead of `{wanted}`")
    asked = len(wrong.error_regex) >= 8 and re.search(wrong.error_regex, str(error))
    if _general(said) != _general(wanted) and not asked:
        raise Mismatch(f"`{said}` instead of `{wanted}`")


def _first_line(error):
    return (str(error).splitlines() or [""])[0].strip()


def _general(text):
    """`text` without the names of the device and of its kernels."""
    text = re.sub(r'"\w+" not implemented', "not implemented", text)
    return re.sub(r"\b(cpu|tpu)(:0)?\b", "device", text, flags=re.IGNORECASE)


def samples(subject, form):
    """What `form` is checked with; nothing where the operator has no such form."""
    op = subject.op
    if form == "errors":
        wrong = op.error_inputs("cpu") if op.error_inputs_func else []
        return list(wrong)
    if form in ("gradient", "gradgrad"):
        supported = op.supports_autograd if form == "gradient" else op.supports_gradgrad
        differentiable = subject.dtype in op.supported_backward_dtypes("cpu")
        return subject.samples(True) if supported and differentiable else []
    return subject.samples()


CHECKS = {
    "forward": forward,
    "gradient": gradient,
    "gradgrad": gradgrad,
    "inplace": inplace,
    "out": out,
    "layouts": other_layouts,
    "sizes": other_sizes,
    "errors": errors,
}
