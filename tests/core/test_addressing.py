"""The Neural Turing Machine's addressing, against its equations as loops."""

import pytest
import torch

from regard import Addressing
from regard.core import Address
from tests import reference

BATCH, SLOTS, WIDTH, RADIUS = 3, 7, 5, 2


def parts(*batch: int, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    return {
        "key": torch.randn(*batch, WIDTH, dtype=dtype),
        "strength": torch.rand(*batch, dtype=dtype) * 5,
        "gate": torch.rand(*batch, dtype=dtype),
        "shift": torch.randn(*batch, 2 * RADIUS + 1, dtype=dtype).softmax(-1),
        "sharpness": 1 + torch.rand(*batch, dtype=dtype) * 3,
        "memory": torch.randn(*batch, SLOTS, WIDTH, dtype=dtype),
        "previous": torch.randn(*batch, SLOTS, dtype=dtype).softmax(-1),
    }


def test_the_equations():
    made = parts(BATCH)
    got = Addressing()(**made)
    expected = [reference.address(*(made[name][example].tolist() for name in made)) for example in range(BATCH)]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)


def test_every_stage_is_a_distribution():
    for stage in Addressing().stages(**parts(BATCH, 2)):
        torch.testing.assert_close(stage.sum(-1), torch.ones(BATCH, 2, dtype=torch.float64))
        assert (stage >= 0).all()


def test_a_shift_by_one_moves_the_focus_to_the_next_slot():
    made = parts(BATCH)
    made["gate"] = torch.zeros(BATCH, dtype=torch.float64)
    made["sharpness"] = torch.ones(BATCH, dtype=torch.float64)
    for offset in range(-RADIUS, RADIUS + 1):
        made["shift"] = torch.zeros(BATCH, 2 * RADIUS + 1, dtype=torch.float64)
        made["shift"][:, RADIUS + offset] = 1
        moved = Addressing()(**made)
        torch.testing.assert_close(moved, made["previous"].roll(offset, -1), atol=1e-12, rtol=0)


def test_gradients():
    made = {name: tensor.requires_grad_() for name, tensor in parts(2).items()}
    assert torch.autograd.gradcheck(Addressing(), tuple(made.values()))
    assert torch.autograd.gradgradcheck(Addressing(), tuple(made.values()))


def test_tiny_and_absent_weights_sharpen_without_nan():
    """w^γ has an infinite or undefined derivative where a weight is 0, and vanishes where it is tiny."""
    made = parts(1, dtype=torch.float32)
    made["gate"] = torch.zeros(1)
    made["sharpness"] = torch.tensor([50.0])
    made["shift"] = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]])
    made["previous"] = torch.tensor([[0.0, 1e-30, 2e-30, 0.0, 1e-38, 0.0, 0.0]])
    inputs = {name: tensor.requires_grad_() for name, tensor in made.items()}
    weights = Addressing()(**inputs)
    assert weights.argmax().item() == 2
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0))
    gradients = torch.autograd.grad(weights[0, 2] * 3 + weights[0, 1], list(inputs.values()), allow_unused=True)
    assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)


def test_a_memory_of_zeros_is_looked_at_evenly_and_passes_finite_gradients():
    made = parts(1)
    made["memory"] = torch.zeros(1, SLOTS, WIDTH, dtype=torch.float64, requires_grad=True)
    made["key"] = made["key"].clone().requires_grad_()
    stages = Addressing().stages(**made)
    torch.testing.assert_close(stages.content, torch.full((1, SLOTS), 1 / SLOTS, dtype=torch.float64))
    gradients = torch.autograd.grad(stages.weights[0, 0], (made["memory"], made["key"]))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_several_heads_share_a_memory():
    made = parts(BATCH, 2)
    made["memory"] = torch.randn(BATCH, 1, SLOTS, WIDTH, dtype=torch.float64)
    together = Addressing()(**made)
    for head in range(2):
        alone = {name: tensor[:, head] for name, tensor in made.items() if name != "memory"}
        torch.testing.assert_close(Addressing()(memory=made["memory"][:, 0], **alone), together[:, head])


def test_thousands_of_random_steps_stay_finite():
    generator = torch.Generator().manual_seed(5)
    previous = torch.zeros(4, SLOTS)
    previous[:, 0] = 1
    memory = torch.full((4, SLOTS, WIDTH), 1e-6)
    address = Addressing()
    for _ in range(3_000):
        made = {
            "key": torch.randn(4, WIDTH, generator=generator) * 3,
            "strength": torch.rand(4, generator=generator) * 50,
            "gate": torch.rand(4, generator=generator).round(),
            "shift": (torch.randn(4, 3, generator=generator) * 20).softmax(-1),
            "sharpness": 1 + torch.rand(4, generator=generator) * 30,
        }
        previous = address(**made, memory=memory, previous=previous)
        memory = memory * (1 - previous[..., None]) + previous[..., None] * made["key"][:, None]
        assert previous.isfinite().all()
    torch.testing.assert_close(previous.sum(-1), torch.ones(4))


def test_one_slot_and_more_offsets_than_slots():
    one = parts(2)
    one["memory"], one["previous"] = one["memory"][:, :1], torch.ones(2, 1, dtype=torch.float64)
    torch.testing.assert_close(Addressing()(**one), torch.ones(2, 1, dtype=torch.float64))


def test_stages_are_named():
    assert Address._fields == ("content", "gated", "shifted", "weights")


@pytest.mark.parametrize(
    ("name", "change", "fact"),
    [
        ("key", lambda t: t[..., :-1], "the key must be as wide as a slot of the memory"),
        ("previous", lambda t: t[..., :-1], "one entry a slot"),
        ("shift", lambda t: t[..., :-1], "an odd number of entries"),
        ("gate", lambda t: t[:-1], r"the gate must have the key's batch axes \(3,\)"),
        ("memory", lambda t: t[0], "as many batch axes as the key, 1"),
    ],
)
def test_what_does_not_fit_is_named(unchecked, name, change, fact):
    made = parts(BATCH)
    made[name] = change(made[name])
    with pytest.raises(ValueError, match=fact):
        Addressing()(**made)
