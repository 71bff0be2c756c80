"""Watching Hugging Face models, from small random configurations."""

import copy
import subprocess
import sys

import pytest
import torch

pytest.importorskip("transformers", reason="transformers cannot be imported")

from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import regard

BATCH, N, M, WIDTH = 2, 7, 5, 24
IDS, TARGET = torch.arange(BATCH * N).reshape(BATCH, N) % 29 + 2, torch.arange(BATCH * M).reshape(BATCH, M) % 29 + 2
LEFT = torch.arange(N) >= torch.tensor([[0], [3]])
RIGHT = torch.arange(N) < torch.tensor([[7], [4]])

SMALL = {"vocab_size": 31}
BERT = BertConfig(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=13, **SMALL)
GPT2 = GPT2Config(n_embd=WIDTH, n_layer=2, n_head=3, n_positions=17, bos_token_id=1, eos_token_id=1, **SMALL)
LLAMA = LlamaConfig(
    hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, intermediate_size=13, **SMALL
)
T5 = T5Config(
    d_model=WIDTH, d_kv=6, d_ff=13, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
    relative_attention_max_distance=6, decoder_start_token_id=0, **SMALL
)  # fmt: skip

MODELS = {
    "bert": (BertModel, BERT, "encoder.layer.{}.attention.self", RIGHT),
    "gpt2": (GPT2LMHeadModel, GPT2, "transformer.h.{}.attn", LEFT),
    "llama": (LlamaModel, LLAMA, "layers.{}.self_attn", LEFT),
    "t5": (T5ForConditionalGeneration, T5, "encoder.block.{}.layer.0.SelfAttention", RIGHT),
}


def made(name, way):
    kind, config, path, mask = MODELS[name]
    torch.manual_seed(3)
    config = copy.deepcopy(config)
    config._attn_implementation = way
    model = kind(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model, path, mask


def inputs(name, mask):
    more = {"decoder_input_ids": TARGET} if name == "t5" else {}
    return {"input_ids": IDS, "attention_mask": None if mask is None else mask.long(), **more}


def output(found):
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


def close(found, wanted, rows):
    """Where a row may see something."""
    torch.testing.assert_close(found[rows], wanted[rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_weights_are_those_of_eager(name, gradient, padded):
    model, path, mask = made(name, "sdpa")
    eager, _, _ = made(name, "eager")
    given = inputs(name, mask if padded else None)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    with torch.set_grad_enabled(gradient):
        plain = output(model(**given))
        with regard.watch(model) as seen:
            watched = output(model(**given))
    assert torch.equal(plain, watched)
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    assert "sdpa" not in ALL_ATTENTION_FUNCTIONS._local_mapping
    with torch.no_grad():
        told = eager(**given, output_attentions=True)
    wanted = told.encoder_attentions if name == "t5" else told.attentions
    for layer in range(2):
        site = seen[path.format(layer)]
        assert site[0].axes == ("example", "head", "query", "key")
        assert site[0].shape == wanted[layer].shape
        rows = site.allowed().any(-1)
        assert rows.float().mean() > 0.7
        close(site.weights(), wanted[layer], rows)
        close(site.weights(example=1, head=2), wanted[layer][1, 2], rows[1, 2])
        close(site.weights(head=slice(1, 3), rows=slice(4, 7)), wanted[layer][:, 1:3, 4:7], rows[:, 1:3, 4:7])
        hidden = ~site.allowed() & rows[..., None]
        assert (site.weights()[hidden] == 0).all()
        assert hidden.any() == (padded or name in ("gpt2", "llama"))
        assert torch.equal(site.scores() > -torch.inf, site.allowed())
        close(site.scores().softmax(-1), wanted[layer], rows)
    if name == "t5":
        for part, number, told_too in (
            ("SelfAttention", 0, told.decoder_attentions),
            ("EncDecAttention", 1, told.cross_attentions),
        ):
            for layer in range(2):
                site = seen[f"decoder.block.{layer}.layer.{number}.{part}"]
                close(site.weights(), told_too[layer], site.allowed().any(-1))
                close(site.weights(head=3), told_too[layer][:, 3], site.allowed(head=3).any(-1))


def test_every_step_of_a_generation_is_a_call():
    model, path, mask = made("gpt2", "sdpa")
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": 30}
    with torch.no_grad(), regard.watch(model) as seen:
        written = model.generate(input_ids=IDS, attention_mask=mask.long(), **options)
    site = seen[path.format(1)]
    assert [record.shape[-2:] for record in site] == [(N, N), (1, N + 1), (1, N + 2)]
    eager, _, _ = made("gpt2", "eager")
    whole = torch.cat([mask.long(), torch.ones(BATCH, 2, dtype=torch.long)], 1)
    place = (whole.cumsum(-1) - 1).clamp_min(0)
    with torch.no_grad():
        told = eager(input_ids=written[:, :-1], attention_mask=whole, position_ids=place, output_attentions=True)
    close(site.weights(call=-1)[..., 0, :], told.attentions[1][..., -1, :], slice(None))


def test_only_references_are_kept():
    model, path, _ = made("llama", "sdpa")
    met = []
    inner = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def spy(module, query, key, value, mask, **named):
        met.append((query, key, value))
        return inner(module, query, key, value, mask, **named)

    ALL_ATTENTION_FUNCTIONS["sdpa"] = spy
    try:
        with regard.watch(model) as seen:
            model(**inputs("llama", None))
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is spy
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]
    kept = seen[path.format(0)][0].tensors
    assert set(kept) == {"query", "key", "value"}
    for name, tensor in zip(("query", "key", "value"), met[0], strict=True):
        assert kept[name].data_ptr() == tensor.data_ptr()
        assert not kept[name].requires_grad
    assert kept["key"].shape[1] == 2
    met[0][1].detach().add_(1)
    with pytest.raises(RuntimeError, match=r"^layers\.0\.self_attn, call 0: 'key' has been changed in place since"):
        seen[path.format(0)].weights()


def test_only_the_watched_model_is_seen_and_the_function_is_given_back():
    model, _, _ = made("bert", "sdpa")
    other, _, _ = made("bert", "sdpa")
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    one, two = regard.watch(model), regard.watch(other.encoder)
    seen = one.__enter__(), two.__enter__()
    other(**inputs("bert", RIGHT))
    one.__exit__(None, None, None)
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is not before
    other(**inputs("bert", RIGHT))
    two.__exit__(None, None, None)
    assert [len(found) for found in seen] == [0, 2]
    assert len(seen[1]["layer.0.attention.self"]) == 2
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        raise ZeroDivisionError
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable.:FutureWarning")
def test_checkpointing_is_not_another_call():
    model, path, _ = made("bert", "sdpa")
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with regard.watch(model) as seen:
        model(**inputs("bert", RIGHT)).last_hidden_state.sum().backward()
    assert len(seen[path.format(0)]) == 1


def test_another_way_to_attend_cannot_be_seen_and_that_is_said():
    model, path, _ = made("bert", "eager")
    with regard.watch(model) as seen:
        model(**inputs("bert", RIGHT))
    with pytest.raises(KeyError) as caught:
        seen[path.format(0)]
    assert str(caught.value) == (
        "no attention 'encoder.layer.0.attention.self' was seen: no attention of the model was called; "
        "BertModel attends by 'eager', which cannot be seen: use model.set_attn_implementation('sdpa'), "
        "or its own output_attentions"
    )
    model.set_attn_implementation("sdpa")
    with regard.watch(model) as seen:
        model(**inputs("bert", RIGHT))
    assert path.format(0) in seen


def test_transformers_is_not_imported():
    code = (
        "import torch, regard, sys\n"
        "with regard.watch(torch.nn.MultiheadAttention(8, 2)): pass\n"
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
