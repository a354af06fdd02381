"""Open sizes: one program for a bucket of them, with the results of the exact sizes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_tpu

LENGTHS = [1 + round(i * 999 / 99) for i in range(100)]


def compiles():
    """Programs that this process had to have, from disk or not."""
    return len(torch_tpu.explain())


def sizes_since(start):
    """What the programs of graphs since then are for."""
    return [row.sizes for row in torch_tpu.explain()[start:] if row.what.startswith("graph")]


def close(got, want, **tolerance):
    torch.testing.assert_close(got.cpu(), want, **({"rtol": 1e-4, "atol": 1e-4} | tolerance))


class Block(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))
        self.heads = heads

    def split(self, x):
        b, n, _ = x.shape
        return self.qkv(self.norms[0](x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def forward(self, x, q, k, v, mask=None):
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class Encoder(nn.Module):
    """Embeddings, two layers with a padding mask, a mean over what is kept, and a softmax along
    the sequence."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(1024, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 30)

    def forward(self, words, keep):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = block(x, *block.split(x).unbind(0), mask=keep[:, None, None, :])
        pooled = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
        return self.head(x), pooled, x.mean(1), F.softmax(x.mean(-1), -1)


class Decoder(nn.Module):
    """One layer whose keys and values grow by a word with each call."""

    def __init__(self):
        super().__init__()
        self.words, self.block, self.head = nn.Embedding(30, 16), Block(), nn.Linear(16, 30)

    def forward(self, word, keys, values):
        x = self.words(word)
        q, k, v = self.block.split(x).unbind(0)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return self.head(self.block(x, q, keys, values)), keys, values


def both(model, device):
    torch.manual_seed(0)
    model = model()
    return model, copy.deepcopy(model).to(device)


def sample(n):
    words, keep = torch.randint(0, 30, (2, n)), torch.ones(2, n, dtype=torch.bool)
    keep[1, max(1, n - n // 3) :] = False
    return words, keep


def test_an_encoder_of_a_hundred_lengths_has_eleven_programs(device):
    ours, theirs = both(Encoder, device)
    compiled, start = torch.compile(theirs, backend="tpu", dynamic=True), compiles()
    with torch.no_grad():
        for n in LENGTHS:
            words, keep = sample(n)
            got, want = compiled(words.to(device), keep.to(device)), ours(words, keep)
            for x, y in zip(got, want):
                close(x, y)
    assert compiles() - start <= 11
    assert sum(text.startswith("for a bucket") for text in sizes_since(start)) >= 7


def test_a_decoder_whose_cache_grows_to_a_thousand_has_eleven_programs(device):
    ours, theirs = both(Decoder, device)
    compiled, start = torch.compile(theirs, backend="tpu", dynamic=True), compiles()
    cache = torch.randn(2, 2, 2, 1, 8)
    grown = [cache[0].to(device), cache[1].to(device)]
    want = list(cache)
    with torch.no_grad():
        for n in range(1, 1001):
            word = torch.randint(0, 30, (2, 1))
            logits, *grown = compiled(word.to(device), *grown)
            expected, *want = ours(word, *want)
            if n in LENGTHS:
                close(logits, expected)
        close(grown[0], want[0])
        close(grown[1], want[1])
    assert compiles() - start <= 11
    assert grown[0].shape == (2, 2, 1001, 8) and grown[0].is_contiguous()


def test_a_growing_cache_is_padded_once_a_bucket(device):
    _, model = both(Decoder, device)
    compiled = torch.compile(model, backend="tpu", dynamic=True)
    cache = torch.randn(2, 2, 2, 20, 8)
    state, word = [cache[0].to(device), cache[1].to(device)], torch.zeros(2, 1, dtype=torch.int64)
    word = word.to(device)
    with torch.no_grad():
        _, *state = compiled(word, *state)
        _, *state = compiled(word, *state)
        before = torch_tpu.stats()
        with torch_tpu.no_new_compiles():
            for _ in range(5):
                _, *state = compiled(word, *state)
        after = torch_tpu.stats()
    assert after["padded"] == before["padded"] and after["cut"] == before["cut"]


def test_gradients_are_those_of_the_exact_sizes(device):
    ours, theirs = both(Encoder, device)

    def loss(model, words, keep, targets):
        logits, pooled, mean, soft = model(words, keep)
        loss = F.cross_entropy(logits.reshape(-1, 30), targets.reshape(-1))
        return loss + pooled.square().mean() + mean.var() + (soft * soft).sum()

    compiled, start = torch.compile(loss, backend="tpu", dynamic=True), compiles()
    for n in [3, 7, 12, 31, 32]:
        words, keep = sample(n)
        targets = torch.randint(0, 30, (2, n))
        ours.zero_grad(), theirs.zero_grad()
        want = loss(ours, words, keep, targets)
        got = compiled(theirs, words.to(device), keep.to(device), targets.to(device))
        want.backward(), got.backward()
        close(got, want)
        for x, y in zip(theirs.parameters(), ours.parameters()):
            close(x.grad, y.grad)
    sizes = sizes_since(start)
    assert len(sizes) == 6 and all(text.startswith("for a bucket") for text in sizes)


@pytest.mark.parametrize("how", ["mark_dynamic", "mark_unbacked", "automatic"])
def test_every_way_to_leave_a_size_open(how, device):
    factor = len(how)  # A program of its own: those that are in memory are not listed again.

    def call(x):
        return (x * factor).softmax(0), x.mean(), x.cumsum(0)

    torch._dynamo.reset()
    compiled, start = torch.compile(call, backend="tpu"), compiles()
    for n in [40, 41, 50, 60, 33]:
        x = torch.randn(n)
        y = x.to(device)
        if how == "mark_dynamic":
            torch._dynamo.mark_dynamic(y, 0, min=2, max=100)
        elif how == "mark_unbacked":
            torch._dynamo.decorators.mark_unbacked(y, 0)
        for got, want in zip(compiled(y), call(x)):
            close(got, want)
    assert len(sizes_since(start)) == (2 if how == "automatic" else 1)


CALLS = {
    "mean": lambda x, i: x.mean(1),
    "mean of all": lambda x, i: x.mean(),
    "var": lambda x, i: x.var(1),
    "std of all": lambda x, i: x.std(),
    "amax": lambda x, i: (x.amax(1), x.amin((0, 1))),
    "argmax": lambda x, i: (x.argmax(1), x.max(1).indices),
    "prod": lambda x, i: x.prod(1),
    "any": lambda x, i: ((x > 0).any(1), (x > 0).all(1)),
    "logsumexp": lambda x, i: x.logsumexp(1),
    "log_softmax": lambda x, i: x.log_softmax(1),
    "cumsum": lambda x, i: x.cumsum(1),
    "norm": lambda x, i: x.norm(dim=1),
    "matmul": lambda x, i: (x.mT @ x, x @ x.mT),
    "einsum": lambda x, i: torch.einsum("bnd,bmd->nm", x, x),
    "merged": lambda x, i: x.reshape(-1, 6).T @ x.reshape(-1, 6),
    "split again": lambda x, i: x.reshape(-1, 6).exp().reshape(x.shape).sum(1),
    "cat": lambda x, i: torch.cat([x, x[:, :1], x * 2], 1).sum(1),
    "cat in front": lambda x, i: torch.cat([x[:, :2], x], 1).mean(1),
    "stack": lambda x, i: torch.stack([x, -x], 1).sum(2),
    "slice": lambda x, i: (x[:, 1:], x[:, :-1], x[:, 1:] - x[:, :-1]),
    "last": lambda x, i: (x[:, -1] * 2, x[:, -2:] + 1, -x[:, 0]),
    "pad": lambda x, i: F.pad(x, (0, 0, 1, 0)).sum(1),
    "tril": lambda x, i: (x @ x.mT).tril().sum((1, 2)),
    "triu": lambda x, i: (x @ x.mT).triu(1).amax(2),
    "arange": lambda x, i: x + torch.arange(x.shape[1], device=x.device)[None, :, None],
    "full": lambda x, i: torch.full((x.shape[1], 2), 3.0, device=x.device).sum(),
    "size": lambda x, i: x * x.shape[1] + 1 / x.shape[1],
    "where": lambda x, i: torch.where(x > 0, x, 0).sum(1),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, float("-inf")).amax(1),
    "index": lambda x, i: (x[:, i].sum(1), x.index_select(1, i).mean(1)),
    "gather": lambda x, i: x.gather(1, i[None, :, None].expand(x.shape)).sum(1),
    "scatter_add": lambda x, i: torch.zeros_like(x).index_add(1, i, x),
    "embedding": lambda x, i: F.embedding(i, x[0]).sum(0),
    "layer_norm": lambda x, i: F.layer_norm(x, (6,)).sum(1),
    "norm along": lambda x, i: F.rms_norm(x.mT, (x.shape[1],)).sum(2),
    "attention": lambda x, i: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "cross_entropy": lambda x, i: F.cross_entropy(x[0], i % 6),
    "mse": lambda x, i: (F.mse_loss(x, x * 2), F.l1_loss(x, x * 3), F.smooth_l1_loss(x, -x)),
    "bool": lambda x, i: (i < x.shape[1] - 1).sum(),
}


@pytest.mark.parametrize("name", CALLS)
def test_padding_never_shows(name, device):
    """Tensors come with NaN, and indices with -1, behind their sizes."""
    call = CALLS[name]
    compiled, start = torch.compile(call, backend="tpu", fullgraph=True, dynamic=True), compiles()
    for n in [13, 9, 14]:
        x, i = torch.randn(3, n, 6), torch.randperm(n)
        got, want = compiled(x.to(device), i.to(device)), call(x, i)
        for a, b in zip(*([v] if isinstance(v, torch.Tensor) else v for v in (got, want))):
            close(a, b, equal_nan=True)
    assert [text[:12] for text in sizes_since(start)] == ["for a bucket"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda x: x.sort(0).values, "sort"),
        (lambda x: x.flip(0), "flip"),
        (lambda x: x.unfold(0, 3, 1) * 2, "unfold"),
        (lambda x: x.reshape(2, -1) * 2, "view"),
        (lambda x: (x[:, None] * x).reshape(-1)[torch.arange(3, device=x.device) * 39], "index"),
    ],
)
def test_what_cannot_be_padded_says_why(call, why, device):
    compiled, start = torch.compile(call, backend="tpu", dynamic=True), compiles()
    for n in [40, 42]:
        x = torch.randn(n)
        close(compiled(x.to(device)), call(x))
    rows = [row for row in torch_tpu.explain()[start:] if row.what.startswith("graph")]
    assert len(rows) == 2
    assert all(row.sizes.startswith("for these alone") and why in row.sizes for row in rows)
    assert why in str(rows[0])


def test_bounds_are_those_of_the_exact_size(device):
    compiled = torch.compile(lambda x, i: x[i], backend="tpu", dynamic=True)
    x, i = torch.randn(13).to(device), torch.tensor([3, 12, -13])
    close(compiled(x, i.to(device)), x.cpu()[i])
    with pytest.raises(IndexError, match="index 13 is out of bounds for dimension 0 with size 13"):
        compiled(x, torch.tensor([3, 13, 0]).to(device)).cpu()


def test_results_are_tensors_like_any_other(device):
    compiled = torch.compile(lambda x: x * 2, backend="tpu", dynamic=True)
    x = torch.randn(3, 21, 2)
    y = compiled(x.to(device))
    assert y.shape == x.shape and y.is_contiguous()
    assert y.untyped_storage().nbytes() == x.untyped_storage().nbytes()
    close(y[:, 3:5], x[:, 3:5] * 2)
    close(y.transpose(0, 1) + 1, x.transpose(0, 1) * 2 + 1)
    y.add_(1)
    close(y, x * 2 + 1)
    close(compiled(y.transpose(0, 2)), (x.transpose(0, 2) * 2 + 1) * 2)
    close(compiled(y[:, ::2]), (x[:, ::2] * 2 + 1) * 2)


def test_an_input_that_is_written_keeps_its_size(device):
    def call(x):
        x.mul_(2)
        return x.sum()

    compiled = torch.compile(call, backend="tpu", dynamic=True)
    for n in [11, 12]:
        x = torch.randn(n)
        y = x.to(device)
        close(compiled(y), call(x))
        close(y, x)


def test_buckets_can_be_chosen(device):
    compiled = torch.compile(lambda x: x.sum(), backend="tpu", dynamic=True)
    assert torch.tpu.get_buckets() == "powers"
    start = compiles()
    with torch.tpu.buckets([50, 500]):
        assert torch.tpu.get_buckets() == [50, 500]
        for n in [30, 40, 51, 499, 501]:
            x = torch.randn(n)
            close(compiled(x.to(device)), x.sum())
    assert sizes_since(start) == [
        "for a bucket: up to 50",
        "for a bucket: up to 500",
        "for these alone: no bucket is large enough",
    ]
    start = compiles()
    with torch.tpu.buckets("exact"):
        compiled(torch.randn(30).to(device))
    assert sizes_since(start) == ["for these alone: no bucket is large enough"]
    with pytest.raises(ValueError, match="rising"):
        torch.tpu.buckets([5, 3])
