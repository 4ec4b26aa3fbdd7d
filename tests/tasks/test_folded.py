"""Networks folded into one are what they are alone: values, gradients, and what they keep to themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from omegamax.nn import Entmax
from omegamax.tasks.folded import Folded

M, B = 3, 4


class Reader(torch.nn.Module):
    """One layer of each kind, and a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(7, 5)
        self.lstm = torch.nn.LSTM(5, 6, batch_first=True)
        self.norm = torch.nn.LayerNorm(6)
        self.score = torch.nn.Linear(6, 1)
        self.answer = torch.nn.Linear(6, 3, bias=False)
        self.weigh = Entmax(1.5, learnable=True)
        self.shift = torch.nn.Parameter(torch.randn(3))
        self.scale: Tensor
        self.register_buffer("scale", torch.rand(()))
        for norm in (self.norm.weight, self.norm.bias):
            torch.nn.init.normal_(norm)

    def forward(self, question: Tensor) -> Tensor:
        y, (last, _) = self.lstm(self.words(question))
        y = self.norm(y)
        p = self.weigh(self.score(y).squeeze(-1) * self.scale.unsqueeze(-1))
        return self.answer((p.unsqueeze(-1) * y).sum(1) + last[0]) + self.shift


def readers(dtype: torch.dtype) -> list[Reader]:
    torch.manual_seed(0)
    made = [Reader().to(dtype) for _ in range(M)]
    with torch.no_grad():
        for number, each in enumerate(made):
            each.weigh.alpha.raw.fill_(number - 1.0)
    return made


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_values_and_gradients_are_those_of_each_alone(dtype: torch.dtype, within: float) -> None:
    networks = readers(dtype)
    folded = Folded(networks, each=("shift", "scale"))
    question = torch.randint(7, (M * B, 5))
    found = folded(question)
    expected = torch.cat([network(part) for network, part in zip(networks, question.split(B), strict=True)])
    torch.testing.assert_close(found, expected, rtol=within, atol=within)
    direction = torch.randn_like(found)
    (found * direction).sum().backward()
    (expected * direction).sum().backward()
    others = readers(dtype)
    assert folded.weights.grad is not None
    folded.hand_back(others, folded.weights.grad)
    gradients = [p.detach() for network in others for p in network.parameters()]
    own = [p.grad for network in networks for p in network.parameters()]
    for got, wanted in zip(gradients, own, strict=True):
        torch.testing.assert_close(got, wanted, rtol=10 * within, atol=10 * within)


def test_weights_come_back_as_they_were() -> None:
    networks, others = readers(torch.float32), [Reader() for _ in range(M)]
    Folded(networks, each=("shift", "scale")).hand_back(others)
    for one, other in zip(networks, others, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_dropout_draws_for_each_and_is_off_in_evaluation() -> None:
    one = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    folded, x = Folded([one, one]), torch.ones(1, 4).expand(200, 4)
    first, second = folded(x).split(100)
    assert not torch.equal(first, second)
    first, second = folded.eval()(x).split(100)
    assert torch.equal(first, second) and not folded.make.training
    assert folded.train().make.training


def test_what_cannot_be_folded_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot share: shift"):
        Folded([Reader()], each=("scale",))
    with pytest.raises(ValueError, match="the same scale"):
        Folded([Reader(), Reader()], each=("shift",))
    with pytest.raises(ValueError, match="of one make"):
        Folded([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1, bias=False)])
    deep = torch.nn.Sequential(torch.nn.LSTM(2, 2, num_layers=2, batch_first=True))
    with pytest.raises(TypeError, match="not known"):
        Folded([deep])
