"""The compiled workloads of ``workloads.py`` in plain JAX: the same models on the same arrays.

Each function takes the parameters and inputs by name and gives a step.
"""

import jax
import jax.numpy as jnp
from jax import lax

LAYERS, HEADS, GROUPS, SIZE = 4, 8, 4, 32
RESNET = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
RESNET += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]


def load(arrays):
    """Parameters, and inputs with 32-bit integers."""
    arrays = {k: jnp.asarray(a, None if a.dtype.kind == "f" else jnp.int32) for k, a in arrays}
    params = {k[2:]: a for k, a in arrays.items() if k.startswith("p.")}
    return params, arrays["ids"], arrays["x"]


def adamw(loss_of, params, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8, decay=0.01):
    """A step of AdamW as one program that donates parameters and moments."""

    def update(p, m, v, t):
        loss, g = jax.value_and_grad(loss_of)(p)
        t = t + 1
        m = {k: b1 * m[k] + (1 - b1) * g[k] for k in p}
        v = {k: b2 * v[k] + (1 - b2) * g[k] * g[k] for k in p}
        c1, c2 = 1 - b1**t, jnp.sqrt(1 - b2**t)
        step = {k: rate / c1 * m[k] / (jnp.sqrt(v[k]) / c2 + eps) for k in p}
        return {k: p[k] * (1 - rate * decay) - step[k] for k in p}, m, v, t, loss

    update = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    zeros = [{k: jnp.zeros_like(a) for k, a in params.items()} for _ in range(2)]
    state = [params, *zeros, jnp.zeros((), jnp.float32)]

    def step():
        *state[:], loss = update(*state)
        return loss

    return step


def cross_entropy(logits, labels):
    """Mean over all rows."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1)
    return -jnp.mean(chosen)


def attention(q, k, v, mask):
    """q [b, h, s, d], k and v [b, g, s, d], mask broadcastable to [b, g, h / g, s, s]."""
    b, h, s, d = q.shape
    q = q.reshape(b, k.shape[1], h // k.shape[1], s, d)
    scores = jnp.einsum("bghsd,bgtd->bghst", q, k) * d**-0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bghst,bgtd->bghsd", weights, v).reshape(b, h, s, d)


def _rms(x, weight):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def _rotate(x):
    frequency = 1.0 / 10000.0 ** (jnp.arange(0, SIZE, 2, dtype=jnp.float32) / SIZE)
    angle = jnp.arange(x.shape[2], dtype=jnp.float32)[:, None] * frequency
    cos, sin = (jnp.concatenate([f(angle)] * 2, -1) for f in (jnp.cos, jnp.sin))
    half = jnp.concatenate([-x[..., SIZE // 2 :], x[..., : SIZE // 2]], -1)
    return x * cos + half * sin


def _split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _joined(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def llama(p, ids):
    """Logits of every position."""
    length = ids.shape[1]
    mask = jnp.tril(jnp.ones((length, length), bool))
    x = p["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):

        def weight(name, i=i):
            return p[f"model.layers.{i}.{name}.weight"]

        h = _rms(x, weight("input_layernorm"))
        q = _rotate(_split(h @ weight("self_attn.q_proj").T, HEADS))
        k = _rotate(_split(h @ weight("self_attn.k_proj").T, GROUPS))
        v = _split(h @ weight("self_attn.v_proj").T, GROUPS)
        x = x + _joined(attention(q, k, v, mask)) @ weight("self_attn.o_proj").T
        h = _rms(x, weight("post_attention_layernorm"))
        gate = jax.nn.silu(h @ weight("mlp.gate_proj").T)
        x = x + (gate * (h @ weight("mlp.up_proj").T)) @ weight("mlp.down_proj").T
    return _rms(x, p["model.norm.weight"]) @ p["lm_head.weight"].T


def llama_forward(p, ids, x):
    """See `workloads.llama_forward`."""
    forward = jax.jit(llama)
    return lambda: forward(p, ids)[:, -1]


def llama_train(p, ids, x):
    """See `workloads.llama_train`."""
    return adamw(lambda p: cross_entropy(llama(p, ids)[:, :-1], ids[:, 1:]), p)


def _linear(x, p, name):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def _layer_norm(x, p, name):
    y = (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-12)
    return y * p[name + ".weight"] + p[name + ".bias"]


def bert(p, ids, mask):
    """The last layer's hidden states."""
    embedding = "embeddings.{}_embeddings.weight".format
    x = p[embedding("word")][ids] + p[embedding("token_type")][0]
    x = _layer_norm(x + p[embedding("position")][: ids.shape[1]], p, "embeddings.LayerNorm")
    mask = (mask > 0)[:, None, None, None]
    for i in range(LAYERS):
        n = f"encoder.layer.{i}."
        parts = (f"{n}attention.self.{part}" for part in ("query", "key", "value"))
        q, k, v = (_split(_linear(x, p, part), HEADS) for part in parts)
        a = _linear(_joined(attention(q, k, v, mask)), p, n + "attention.output.dense")
        x = _layer_norm(x + a, p, n + "attention.output.LayerNorm")
        h = jax.nn.gelu(_linear(x, p, n + "intermediate.dense"), approximate=False)
        x = _layer_norm(x + _linear(h, p, n + "output.dense"), p, n + "output.LayerNorm")
    return x


def bert_forward(p, ids, x):
    """See `workloads.bert_forward`."""
    forward, mask = jax.jit(bert), jnp.ones_like(ids)
    return lambda: forward(p, ids, mask)[:, -1]


def mlp_train(p, ids, x):
    """See `workloads.mlp_train`."""

    def loss_of(p):
        y = jax.nn.relu(_linear(x, p, "0"))
        return jnp.mean(_linear(jax.nn.relu(_linear(y, p, "2")), p, "4") ** 2)

    return adamw(loss_of, p)


mlp_whole = mlp_train


def _conv(x, w, stride, pad):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride,) * 2, [(pad,) * 2] * 2, dimension_numbers=layout)


def resnet(p, running, x):
    """Logits, and the running statistics after the batch; channels last, as JAX has them."""
    new = {}

    def bn(x, name):
        mean, var, n = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2)), x.size // x.shape[-1]
        for key, value in (("mean", mean), ("var", var * (n / (n - 1)))):
            key = f"{name}.running_{key}"
            new[key] = 0.9 * running[key] + 0.1 * value
        return (x - mean) * lax.rsqrt(var + 1e-5) * p[name + ".weight"] + p[name + ".bias"]

    x = jax.nn.relu(bn(_conv(x, p["conv.weight"], 2, 3), "bn"))
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for i, (before, after, stride) in enumerate(RESNET):
        b = f"blocks.{i}."
        y = jax.nn.relu(bn(_conv(x, p[b + "conv1.weight"], stride, 1), b + "bn1"))
        y = bn(_conv(y, p[b + "conv2.weight"], 1, 1), b + "bn2")
        if before != after:
            x = bn(_conv(x, p[b + "down.0.weight"], stride, 0), b + "down.1")
        x = jax.nn.relu(y + x)
    return _linear(jnp.mean(x, (1, 2)), p, "fc"), new


def resnet_train(p, ids, x):
    """See `workloads.resnet_train`."""
    running = {k: a for k, a in p.items() if "running" in k}
    kept = {k: a for k, a in p.items() if k not in running and "num_batches" not in k}
    params = {k: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for k, a in kept.items()}
    x, y = x.transpose(0, 2, 3, 1), jnp.arange(8) % 10

    def loss_of(p, running):
        logits, running = resnet(p, running, x)
        return cross_entropy(logits, y), running

    def update(p, v, running):
        (loss, running), g = jax.value_and_grad(loss_of, has_aux=True)(p, running)
        v = {k: 0.9 * v[k] + g[k] for k in p}
        return {k: p[k] - 0.01 * v[k] for k in p}, v, running, loss

    update = jax.jit(update, donate_argnums=(0, 1, 2))
    state = [params, {k: jnp.zeros_like(a) for k, a in params.items()}, running]

    def step():
        *state[:], loss = update(*state)
        return loss

    return step
