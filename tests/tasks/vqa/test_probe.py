"""The probe of counts: on planted contexts that tell a count or do not, and on a network's own."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.tasks.vqa.networks import scenes, trained

from omegamax.data import DataError
from omegamax.tasks.vqa.probe import collect_counts, probe_counts

pytestmark = pytest.mark.usefixtures("one_thread")


def planted(total: bool, seed: int, count: int = 400):
    """Contexts of 1 to 4 alike things among noise: their sum, or their average, which does not tell how many."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 5, (count,), generator=generator)
    thing = torch.tensor([1.0, -1.0, 0.5])
    context = counts[:, None] * thing if total else thing.expand(count, 3)
    return context + 0.05 * torch.randn(count, 3, generator=generator), counts


@pytest.mark.parametrize("hidden", [0, 4])
def test_sum_tells_the_count_and_average_does_not(hidden):
    told = probe_counts(planted(True, 0), planted(True, 1), hidden=hidden)
    assert told.accuracy > 0.99 and told.error < 0.01 and told.questions == 400
    blurred = probe_counts(planted(False, 0), planted(False, 1), hidden=hidden)
    assert blurred.accuracy < blurred.baseline + 0.08 and blurred.error > 0.5


def test_hidden_units_find_what_no_line_parts():
    """The count is odd where two features have the same sign."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).sign()
    x = x + 0.1 * torch.randn(400, 2, generator=torch.Generator().manual_seed(1))
    counts = 1 + (x.prod(-1) < 0).long()
    data = (x, counts)
    assert probe_counts(data, data).accuracy < 0.8  # three of the four corners
    assert probe_counts(data, data, hidden=6).accuracy > 0.99


def test_linear_probe_is_the_optimum_of_its_loss():
    """Scipy minimises the loss as the docstring has it, without gradients of ours."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(120, 3, generator=generator), torch.randint(1, 4, (120,), generator=generator)
    test = torch.randn(2000, 3, generator=generator)
    scaled, asked = (((t - x.mean(0)) / x.std(0, correction=0)).double().numpy() for t in (x, test))

    def loss(theta):
        weight, bias = theta[:9].reshape(3, 3), theta[9:]
        scores = scaled @ weight.T + bias
        chosen = scores[np.arange(120), y.numpy() - 1] - logsumexp(scores, axis=1)
        return -chosen.mean() + 0.01 / 2 * (weight**2).sum()

    theta = minimize(loss, np.zeros(12), tol=1e-12).x
    said = torch.from_numpy(1 + (asked @ theta[:9].reshape(3, 3).T + theta[9:]).argmax(1))
    assert probe_counts((x, y), (test, said), penalty=0.01).accuracy > 0.998


def test_probe_repeats_itself_and_leaves_the_random_state_alone():
    state = torch.get_rng_state()
    first, second = (probe_counts(planted(True, 0), planted(True, 1), hidden=3, seed=5) for _ in range(2))
    assert first == second and torch.equal(state, torch.get_rng_state())


def test_edge_cases():
    x, y = planted(True, 0, 20)
    one = probe_counts((x, torch.ones(20, dtype=torch.long)), (x, y))
    assert one.accuracy == one.baseline == float((y == 1).double().mean())
    flat = probe_counts((torch.ones(20, 3), y), (x, y))  # a feature that never changes
    assert flat.accuracy == flat.baseline
    assert probe_counts((x, y), (x, y + 10)).accuracy == 0  # counts that training does not have
    with pytest.raises(ValueError, match=r"train must be contexts \[N, D\] and N counts, integers, N >= 1, got"):
        probe_counts((x, y[1:]), (x, y))
    with pytest.raises(ValueError, match="must have contexts with as many features, got 3 and 2"):
        probe_counts((x, y), (x[:, :2], y))
    with pytest.raises(ValueError, match="penalty must be a finite number > 0"):
        probe_counts((x, y), (x, y), penalty=0)


def test_contexts_of_a_network_are_those_of_its_counting_questions():
    data = scenes(questions=("count_shape", "has_colour"))
    task = trained("continuous_softmax", data, grid=(4, 4)).train()
    contexts, counts = collect_counts(task, data.test_dataloader())
    assert task.training
    task.eval()
    batches = list(data.test_dataloader())
    answers = [task.vocabulary.answers[i] for batch in batches for i in batch["answers"].argmax(-1).tolist()]
    numbers = [int(answer) for answer in answers if answer.isdecimal()]
    assert counts.tolist() == numbers and 0 < len(numbers) < 20
    with torch.no_grad():
        whole = torch.cat([task(batch).context for batch in batches])
    rows = [i for i, answer in enumerate(answers) if answer.isdecimal()]
    torch.testing.assert_close(contexts, whole[rows].double())
    assert probe_counts((contexts, counts), (contexts, counts)).questions == len(numbers)


def test_set_that_does_not_count_is_refused():
    data = scenes(questions=("exists", "has_colour"))
    with pytest.raises(DataError, match="no question has a number for an answer"):
        collect_counts(trained("softmax", data, grid=(4, 4)), data.test_dataloader())
