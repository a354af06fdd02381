"""What the benchmark measures: each function gives a step for a device.

A step returns a tensor; the benchmark reads it, so that the device has finished. ``wrap`` is what
the forward, with the loss where there is one, goes through: ``torch.compile``, or nothing.
``jax_twins.py`` has the same models in JAX.
"""

import torch


def add(device):
    """One operation on one element."""
    x, y = torch.ones(1, device=device), torch.ones(1, device=device)
    return lambda: x + y


def chain(device):
    """Twenty operations on 1,000 elements."""
    torch.manual_seed(0)
    x, y = torch.rand(2, 1000).to(device).unbind(0)

    def step():
        a = x + y
        c = a - x * y
        e = torch.relu(c) * 0.5
        f = e + 1.0
        h = -torch.maximum(f, x)
        i = torch.abs(h)
        k = torch.sqrt(i * i)
        n = torch.tanh(k / f)
        p = torch.minimum(n + y, f)
        r = torch.sigmoid(p * 0.25)
        s = (r - 0.5) + x
        return (s * 0.9) / 1.5

    return step


def _llama(device):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config).to(device)


def _tokens(device, batch, length):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 4096, (batch, length), generator=generator).to(device)


def _same(function):
    return function


def _trainer(loss_of, optimizer, wrap):
    loss_of = wrap(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _forward(logits_of, wrap):
    logits_of = wrap(logits_of)

    def step():
        with torch.no_grad():
            return logits_of()[:, -1]

    return step


def llama_forward(device, wrap=_same):
    """Forward of a Llama of 4 layers and hidden size 256 on 4 sequences of 128 tokens."""
    model, ids = _llama(device).eval(), _tokens(device, 4, 128)
    return _forward(lambda: model(input_ids=ids, use_cache=False).logits, wrap)


def llama_train(device, wrap=_same):
    """Training step of the same model with AdamW."""
    model, ids = _llama(device).train(), _tokens(device, 4, 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return _trainer(lambda: model(input_ids=ids, labels=ids, use_cache=False).loss, optimizer, wrap)


def _bert(device):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4096,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=1024,
        max_position_embeddings=256,
    )
    return BertModel(config, add_pooling_layer=False).to(device)


def bert_forward(device, wrap=_same):
    """Forward of a BERT encoder of 4 layers and hidden size 256 on 8 sequences of 128 tokens."""
    model, ids = _bert(device).eval(), _tokens(device, 8, 128)
    mask = torch.ones_like(ids)
    return _forward(lambda: model(input_ids=ids, attention_mask=mask).last_hidden_state, wrap)


def _mlp(device):
    torch.manual_seed(0)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    layers = linear(512, 512), relu(), linear(512, 512), relu(), linear(512, 512)
    return torch.nn.Sequential(*layers).to(device)


def _noise(device, *sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1)).to(device)


def mlp_train(device, wrap=_same):
    """Training step of three linear layers of 512 on a batch of 64, AdamW."""
    model, x, y = _mlp(device), _noise(device, 64, 512), torch.zeros(64, 512).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return _trainer(lambda: torch.nn.functional.mse_loss(model(x), y), optimizer, wrap)


def mlp_whole(device, wrap=_same):
    """The same step as one function: gradients by torch.func, and the update of AdamW."""
    model, x, y = _mlp(device), _noise(device, 64, 512), torch.zeros(64, 512).to(device)
    p = {name: parameter.detach() for name, parameter in model.named_parameters()}
    m, v = ({name: torch.zeros_like(tensor) for name, tensor in p.items()} for _ in range(2))
    count = torch.zeros((), device=device)

    def loss_of(p):
        return torch.nn.functional.mse_loss(torch.func.functional_call(model, p, (x,)), y)

    def step():
        gradients, loss = torch.func.grad_and_value(loss_of)(p)
        count.add_(1)
        first, second = 1 - 0.9**count, (1 - 0.999**count).sqrt()
        for name, g in gradients.items():
            m[name].mul_(0.9).add_(g, alpha=0.1)
            v[name].mul_(0.999).addcmul_(g, g, value=0.001)
            change = m[name] / (v[name].sqrt() / second + 1e-8)
            p[name].mul_(1 - 1e-5).sub_(1e-3 / first * change)
        return loss

    return wrap(step)


class _Block(torch.nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        conv = torch.nn.Conv2d
        self.conv1 = conv(before, after, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(after)
        self.conv2 = conv(after, after, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(after)
        self.down = None
        if before != after:
            down = conv(before, after, 1, stride, bias=False), torch.nn.BatchNorm2d(after)
            self.down = torch.nn.Sequential(*down)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.down is None else self.down(x)))


# Channels before and after, and stride, of a ResNet-18's blocks.
RESNET = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
RESNET += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]


def _resnet(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module("conv", torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False))
    model.add_module("bn", torch.nn.BatchNorm2d(64))
    model.add_module("relu", torch.nn.ReLU())
    model.add_module("pool", torch.nn.MaxPool2d(3, 2, 1))
    model.add_module("blocks", torch.nn.Sequential(*(_Block(*sizes) for sizes in RESNET)))
    model.add_module("mean", torch.nn.AdaptiveAvgPool2d(1))
    model.add_module("flat", torch.nn.Flatten())
    model.add_module("fc", torch.nn.Linear(512, 10))
    return model.to(device)


def resnet_train(device, wrap=_same):
    """Training step of a ResNet-18 on 8 images of 64 x 64, SGD with momentum."""
    model, x = _resnet(device).train(), _noise(device, 8, 3, 64, 64)
    y = (torch.arange(8) % 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return _trainer(lambda: torch.nn.functional.cross_entropy(model(x), y), optimizer, wrap)


def arrays(name):
    """A compiled workload's parameters (``p.`` and their name) and inputs, for its JAX twin."""
    model = {"llama": _llama, "bert": _bert, "mlp": _mlp, "resnet": _resnet}[name.split("_")[0]]
    found = {f"p.{key}": value for key, value in model("cpu").state_dict().items()}
    found["ids"] = _tokens("cpu", 8 if name.startswith("bert") else 4, 128)
    found["x"] = _noise("cpu", *((8, 3, 64, 64) if name.startswith("resnet") else (64, 512)))
    return {key: value.numpy() for key, value in found.items()}


def generate(device):
    """Greedy generation of 32 tokens with the growing cache, prompt of 16, the same model."""
    model, ids = _llama(device).eval(), _tokens(device, 1, 16)
    mask = torch.ones_like(ids)
    return lambda: model.generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=32, pad_token_id=0
    )


# Name, and how many steps make one measurement.
ALL = {"add": 4000, "chain": 400, "llama_forward": 4, "llama_train": 2, "generate": 1}
COMPILED = {
    "mlp_train": 50,
    "mlp_whole": 50,
    "llama_forward": 8,
    "llama_train": 3,
    "bert_forward": 4,
}
COMPILED["resnet_train"] = 1
