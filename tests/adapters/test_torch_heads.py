"""Watching PyTorch's own attention, alone and in its transformer layers."""

import pytest
import torch
from torch import nn

import regard
from regard.core import Record

BATCH, M, N, HEADS, WIDTH = 2, 5, 7, 4, 24
ABOVE = torch.ones(M, M, dtype=torch.bool).triu(1)
PADDING = torch.arange(M) >= torch.tensor([[5], [3]])
KEY_PADDING = torch.arange(N) >= torch.tensor([[7], [4]])

CASES = {
    "itself": ({}, False, {}),
    "positions first": ({"batch_first": False}, False, {}),
    "without biases": ({"bias": False}, False, {}),
    "across": ({}, True, {}),
    "across, positions first": ({"batch_first": False}, True, {"key_padding_mask": KEY_PADDING}),
    "widths of its own": ({"kdim": 11, "vdim": 13}, True, {"key_padding_mask": KEY_PADDING}),
    "widths of its own, without biases": ({"kdim": 11, "vdim": 13, "bias": False}, True, {}),
    "mask": ({}, False, {"attn_mask": ABOVE}),
    "mask of numbers": ({}, False, {"attn_mask": torch.randn(M, M)}),
    "mask by head": ({}, False, {"attn_mask": torch.randn(BATCH * HEADS, M, M)}),
    "padding": ({}, False, {"key_padding_mask": PADDING}),
    "padding of numbers": ({}, False, {"key_padding_mask": torch.zeros(BATCH, M).masked_fill(PADDING, -torch.inf)}),
    "both": ({}, False, {"attn_mask": ABOVE, "key_padding_mask": PADDING}),
    "causal": ({}, False, {"attn_mask": ABOVE, "is_causal": True}),
    "a key more": ({"add_bias_kv": True}, False, {"attn_mask": ABOVE, "key_padding_mask": PADDING}),
    "a zero more": ({"add_zero_attn": True}, False, {"attn_mask": torch.randn(M, M)}),
    "both more": ({"add_zero_attn": True, "add_bias_kv": True}, False, {"key_padding_mask": PADDING}),
}


def layer_and_inputs(options, *, across):
    layer = nn.MultiheadAttention(WIDTH, HEADS, **{"batch_first": True, **options})
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    query = torch.randn(BATCH, M, WIDTH)
    key, value = (torch.randn(BATCH, N, width) for width in (layer.kdim, layer.vdim)) if across else (query, query)
    if not layer.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value)) if across else [query.transpose(0, 1)] * 3
    return layer, (query, key, value)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_that_it_returns(case, gradient):
    """In evaluation without gradients the layer itself takes its fused path, watched or not."""
    options, across, masks = CASES[case]
    layer, given = layer_and_inputs(options, across=across)
    layer.train(gradient)
    with torch.set_grad_enabled(gradient):
        wanted = layer(*given, **masks, average_attn_weights=False)
        with regard.watch(layer) as seen:
            found = layer(*given, **masks, average_attn_weights=False)
            without = layer(*given, **masks, need_weights=False)[0]
        assert torch.equal(without, layer(*given, **masks, need_weights=False)[0])
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])
    assert len(seen["attention"]) == 2
    for record in seen["attention"]:
        assert isinstance(record, Record)
        assert record.axes == ("example", "head", "query", "key")
        assert record.shape == wanted[1].shape
        torch.testing.assert_close(record.weights(), wanted[1], atol=1e-6, rtol=1e-5)
        assert torch.equal(record.allowed(), record.weights() > 0)
        torch.testing.assert_close(record.scores().softmax(-1), wanted[1], atol=1e-6, rtol=1e-5)
    for index in ((1, 2, 3), (slice(1, 2), slice(1, 3), slice(2, 5))):
        part = seen["attention"].weights(call=0, example=index[0], head=index[1], rows=index[2])
        torch.testing.assert_close(part, wanted[1][index], atol=1e-6, rtol=1e-5)


def test_without_a_batch():
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x, mask = torch.randn(M, WIDTH), PADDING[1]
    with regard.watch(layer) as seen:
        wanted = layer(x, x, x, key_padding_mask=mask, average_attn_weights=False)[1]
        layer(x, x, x, attn_mask=torch.randn(HEADS, M, M))
    assert seen["attention"][0].axes == ("head", "query", "key")
    torch.testing.assert_close(seen["attention"].weights(call=0), wanted.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen["attention"].weights(call=0, head=1, rows=2), wanted[1, 2].detach())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_a_transformer_gives_the_same_bits(gradient, nested):
    """In evaluation without gradients: the bits of the path that is not fused."""
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, 17, batch_first=True, dropout=0.0), 2, enable_nested_tensor=nested
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 17, batch_first=True, dropout=0.0), 2)
    model = nn.Transformer(WIDTH, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    model.train(gradient)
    source, target = torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, M, WIDTH)
    masks = {"src_key_padding_mask": KEY_PADDING, "memory_key_padding_mask": KEY_PADDING, "tgt_mask": ABOVE}
    with torch.set_grad_enabled(gradient):
        with regard.watch(model) as seen:
            assert not torch.backends.mha.get_fastpath_enabled()
            output = model(source, target, **masks)
        assert torch.backends.mha.get_fastpath_enabled()
        fused = model(source, target, **masks)
        torch.backends.mha.set_fastpath_enabled(False)
        assert torch.equal(output, model(source, target, **masks))
        torch.backends.mha.set_fastpath_enabled(True)
        torch.testing.assert_close(output, fused, atol=1e-5, rtol=1e-4)
        assert not gradient or torch.equal(output, fused)
    parts = ("self_attn", "multihead_attn")
    layers = [f"encoder.layers.{i}.self_attn" for i in range(2)]
    assert seen.names == (*layers, *(f"decoder.layers.{i}.{part}" for i in range(2) for part in parts))
    across = seen["decoder.layers.1.multihead_attn"].weights()
    assert across.shape == (BATCH, HEADS, M, N)
    assert (across[1, ..., 4:] == 0).all()
    torch.testing.assert_close(across.sum(-1), torch.ones(BATCH, HEADS, M))
    own = seen["decoder.layers.0.self_attn"]
    assert torch.equal(own.allowed(), ~ABOVE.expand(BATCH, HEADS, M, M))


def test_the_fused_path_is_off_until_the_last_watch_ends():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True), 1)
    one, other = regard.watch(model), regard.watch(model)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert not torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        raise ZeroDivisionError
    assert not torch.backends.mha.get_fastpath_enabled()
    other.__exit__(None, None, None)
    assert torch.backends.mha.get_fastpath_enabled()
    with regard.watch(nn.MultiheadAttention(WIDTH, HEADS)):
        assert torch.backends.mha.get_fastpath_enabled()


def test_only_inputs_are_kept_and_changes_are_refused():
    layer, (x, _, _) = layer_and_inputs({}, across=False)
    with regard.watch(layer) as seen:
        layer(x, x, x)[0].sum().backward()
    (record,) = seen["attention"]
    assert record.tensors["query"].data_ptr() == x.data_ptr()
    assert record.tensors["in_proj_weight"].data_ptr() == layer.in_proj_weight.data_ptr()
    assert not any(t.requires_grad for t in record.tensors.values())
    torch.optim.Adam(layer.parameters(), fused=True).step()
    with pytest.raises(RuntimeError, match=r"^attention, call 0: 'in_proj_weight' has been changed in place since"):
        seen["attention"].weights()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in layer.modules())


def test_another_model_inside_of_the_block_is_not_seen():
    layer, given = layer_and_inputs({}, across=False)
    other, _ = layer_and_inputs({}, across=False)
    with regard.watch(layer) as seen:
        other(*given)
    assert len(seen) == 0
    assert repr(seen) == "Seen(nothing)"


def test_a_kind_of_its_own_computes_what_it_likes():
    class Other(nn.MultiheadAttention):
        def forward(self, x, *, weights):
            return super().forward(x, x, x, need_weights=weights)[0]

    layer = Other(WIDTH, HEADS)
    with regard.watch(layer) as seen:
        layer(torch.randn(M, BATCH, WIDTH), weights=False)
    assert len(seen) == 0


def test_nested_tensors_are_not_seen_and_that_is_said():
    layer, _ = layer_and_inputs({}, across=False)
    layer.eval()
    with torch.no_grad():
        x = torch._nested_tensor_from_mask(torch.randn(BATCH, M, WIDTH), ~PADDING)
        with regard.watch(layer) as seen:
            layer(x, x, x, need_weights=False)
    with pytest.raises(KeyError) as caught:
        seen["attention"]
    assert str(caught.value) == (
        "no attention 'attention' was seen: no attention of the model was called; "
        "a call on nested tensors could not be seen: give padded ones, and a mask"
    )


def test_the_types_of_autocast_are_those_of_the_call():
    layer, (x, _, _) = layer_and_inputs({}, across=False)
    with torch.autocast("cpu", dtype=torch.bfloat16), regard.watch(layer) as seen:
        wanted = layer(x.bfloat16(), x.bfloat16(), x.bfloat16(), average_attn_weights=False)[1]
    torch.testing.assert_close(seen["attention"].weights().float(), wanted.float().detach(), atol=0.02, rtol=0.05)
