"""The models: real architectures, small but whole, with the inputs that the tests give them."""

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from torch import nn

# One width and one vocabulary for all, so that models share programs.
WIDTH, HEADS, HEAD, LAYERS, VOCABULARY = 256, 4, 64, 2, 320
BATCH, LENGTH, SIDE, CLASSES = 2, 12, 64, 10

# The special tokens are none that a model says: `generate` runs its full length.
SILENT = {"bos_token_id": 1, "eos_token_id": VOCABULARY - 1, "pad_token_id": 0}


def tokens(length=LENGTH, batch=BATCH):
    return torch.randint(2, VOCABULARY - 1, (batch, length))


def causal(make):
    """A decoder: it reads tokens and learns to predict them."""
    ids = tokens()
    return make(), {"input_ids": ids, "labels": ids}


def decoder(config, model, **options):
    shape = {
        **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH},
        **{"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2},
        **{"head_dim": HEAD, "max_position_embeddings": 128, **SILENT},
    }
    return causal(lambda: model(config(**{**shape, **options})))


def llama():
    return decoder(hf.LlamaConfig, hf.LlamaForCausalLM)


def qwen3():
    return decoder(hf.Qwen3Config, hf.Qwen3ForCausalLM, head_dim=128)


def qwen3_moe():
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
    options = {"head_dim": 128, "norm_topk_prob": True, **experts}
    model, inputs = decoder(hf.Qwen3MoeConfig, hf.Qwen3MoeForCausalLM, **options)
    return model, inputs | {"output_router_logits": True}


def gemma():
    options = {"head_dim": 256, "num_attention_heads": 2, "num_key_value_heads": 1}
    return decoder(hf.GemmaConfig, hf.GemmaForCausalLM, **options)


def gemma3():
    """Two kinds of attention in turn: within a window shorter than the input, and over it all."""
    layers = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
    options = {"head_dim": 256, "num_attention_heads": 2, "num_key_value_heads": 1, **layers}
    return decoder(hf.Gemma3TextConfig, hf.Gemma3ForCausalLM, **options)


def gpt2():
    shape = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = hf.GPT2Config(vocab_size=VOCABULARY, **shape, **still, **SILENT)
    return causal(lambda: hf.GPT2LMHeadModel(config))


def encoder_shape():
    return {
        **{"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH},
        **{"num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
    }


def bert():
    """Fills in masked words; the second sentence is shorter, and padded."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = hf.BertConfig(vocab_size=VOCABULARY, **encoder_shape(), **still)
    ids, mask = tokens(), torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, 8:] = 0
    labels = torch.where(torch.arange(LENGTH) % 3 == 0, ids, -100)
    return hf.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": labels}


def t5():
    shape = {"d_model": WIDTH, "d_kv": HEAD, "num_heads": HEADS, "d_ff": 2 * WIDTH}
    config = hf.T5Config(
        **{"vocab_size": VOCABULARY, **shape, "num_layers": LAYERS, "dropout_rate": 0.0},
        **{"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        **{**SILENT, "decoder_start_token_id": 0, "initializer_factor": 0.1},
    )
    return hf.T5ForConditionalGeneration(config), {"input_ids": tokens(), "labels": tokens(8)}


def pictures():
    inputs = {"pixel_values": torch.randn(BATCH, 3, SIDE, SIDE)}
    return inputs | {"labels": torch.randint(CLASSES, (BATCH,))}


def vit():
    config = hf.ViTConfig(**encoder_shape(), image_size=SIDE, patch_size=16, num_labels=CLASSES)
    return hf.ViTForImageClassification(config), pictures()


def resnet():
    shape = {"embedding_size": 32, "hidden_sizes": [64, 128], "depths": [2, 1]}
    config = hf.ResNetConfig(**shape, layer_type="bottleneck", num_labels=CLASSES)
    return hf.ResNetForImageClassification(config), pictures()


def whisper():
    """Hears 64 frames of 80 bands."""
    sides = ["encoder", "decoder"]
    heads = {f"{side}_attention_heads": HEADS for side in sides}
    shape = {f"{side}_layers": LAYERS for side in sides} | heads
    widths = {f"{side}_ffn_dim": 2 * WIDTH for side in sides} | {"d_model": WIDTH}
    places = {"max_source_positions": 32, "max_target_positions": 128}
    special = {**SILENT, "decoder_start_token_id": 1, "begin_suppress_tokens": None}
    config = hf.WhisperConfig(vocab_size=VOCABULARY, **shape, **widths, **places, **special)
    inputs = {"input_features": torch.randn(BATCH, 80, 64), "labels": tokens(8)}
    return hf.WhisperForConditionalGeneration(config), inputs


def clip():
    text = {**encoder_shape(), "vocab_size": VOCABULARY, "projection_dim": WIDTH, **SILENT}
    vision = {**encoder_shape(), "image_size": SIDE, "patch_size": 16, "projection_dim": WIDTH}
    config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH)
    ids = tokens()
    ids[:, -1] = SILENT["eos_token_id"]
    pixels = pictures()["pixel_values"]
    return hf.CLIPModel(config), {"input_ids": ids, "pixel_values": pixels, "return_loss": True}


class Translator(nn.Module):
    """PyTorch's own transformer between embeddings and a classifier."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        layers = {"num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS}
        shape = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": 2 * WIDTH, **layers}
        self.transformer = nn.Transformer(**shape, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source, target, labels):
        length = target.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length).to(target.device)
        words = self.words(source), self.words(target)
        hidden = self.transformer(*words, tgt_mask=mask, tgt_is_causal=True)
        return classified(self.classifier(hidden), labels)


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers that labels each word."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 64)
        self.recurrent = nn.LSTM(64, 96, num_layers=2, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(2 * 96, CLASSES)

    def forward(self, source, labels):
        hidden, (last, cell) = self.recurrent(self.words(source))
        return classified(self.classifier(hidden) + last.sum() + cell.mean(), labels)


def classified(logits, labels):
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return SimpleNamespace(loss=loss, logits=logits)


def transformer():
    return Translator(), {"source": tokens(), "target": tokens(8), "labels": tokens(8)}


def lstm():
    labels = torch.randint(CLASSES, (BATCH, LENGTH))
    return Tagger(), {"source": tokens(), "labels": labels}


SPEAKERS = [llama, qwen3, qwen3_moe, gemma, gemma3, gpt2, t5, whisper]
OTHERS = [bert, vit, resnet, clip, transformer, lstm]


@dataclasses.dataclass
class Subject:
    """A model on the CPU, in evaluation mode, and a batch for it."""

    name: str
    model: nn.Module
    inputs: dict

    def on(self, where):
        """The model and the batch, copied to a device or in a dtype (the floats of both)."""
        model = copy.deepcopy(self.model).to(where)
        return model, {name: place(value, where) for name, value in self.inputs.items()}


def place(value, where):
    discrete = not torch.is_tensor(value) or not value.is_floating_point()
    if discrete and isinstance(where, torch.dtype):
        return value
    return value.to(where) if torch.is_tensor(value) else value


def make(name):
    torch.manual_seed(0)
    builders = {builder.__name__: builder for builder in SPEAKERS + OTHERS}
    model, inputs = builders[name]()
    return Subject(name, spread(model).eval(), inputs)


@torch.no_grad()
def spread(model):
    """No bias at zero and no scale at one, which would hide what an operator does to them."""
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return model


def pytest_generate_tests(metafunc):
    if "subject" in metafunc.fixturenames:
        names = [builder.__name__ for builder in SPEAKERS + OTHERS]
        metafunc.parametrize("subject", names, indirect=True)
    if "speaker" in metafunc.fixturenames:
        names = [builder.__name__ for builder in SPEAKERS]
        metafunc.parametrize("speaker", names, indirect=True)


@pytest.fixture
def small_llama():
    """One model that generates text, for what does not depend on the architecture."""
    return make("llama")


@pytest.fixture
def subject(request):
    """Each model in turn."""
    return make(request.param)


@pytest.fixture
def speaker(request):
    """Each model that generates text."""
    return make(request.param)
