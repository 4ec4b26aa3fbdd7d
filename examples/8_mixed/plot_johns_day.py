"""
Is where John is a discrete or a continuous variable?
=====================================================

He is at home, at work or in the pub: discrete. Or on the way from one to another: continuous. It is mixed, and neither
a table of probabilities nor a density on the triangle has room for all of his day.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import mixed, viz

# %%
# A day has 24 hours: most of them in the three places, the corners; some on the three ways between them, the edges; and
# half an hour of strolling through the town between all three, the inside.

places = ["home", "work", "pub"]
hours = {
    (True, False, False): 12.5,
    (False, True, False): 8.0,
    (False, False, True): 1.75,
    (True, True, False): 0.5,
    (False, True, True): 0.25,
    (True, False, True): 0.5,
    (True, True, True): 0.5,
}
generator = torch.Generator().manual_seed(0)
faces = torch.tensor(list(hours))
drawn = faces[torch.multinomial(torch.tensor(list(hours.values())), 24_000, replacement=True, generator=generator)]
# Nobody walks at a known pace: uniform on the face, by exponential variables that are made to sum to one.
shares = torch.empty(24_000, 3, dtype=torch.float64).exponential_(generator=generator) * drawn
day = shares / shares.sum(-1, keepdim=True)
for face, spent in hours.items():
    share = (drawn == torch.tensor(face)).all(-1).double().mean().item()
    where = " and ".join(place for place, on in zip(places, face, strict=True) if on)
    print(f"{where:21} {spent:5.2f} h, drawn {24 * share:5.2f} h")

# %%
# A Dirichlet density has to leave the corners out, where he is 93% of the time: the nearest, by its mean and spread, is
# heaped up close to them. The mixed Dirichlet distribution first draws the face, corner by corner. Fitted by its
# log-likelihood, which counts mass on corners and density on edges, it has the places about right, and only the way
# between the two likeliest of them too often.

mean, variance = day.mean(0), day.var(0)
total = (mean * (1 - mean) / variance - 1).mean()
torch.manual_seed(0)
dirichlet = torch.distributions.Dirichlet(total * mean).sample((24_000,))
scores = torch.zeros(3, dtype=torch.float64, requires_grad=True)
logs = torch.zeros(3, dtype=torch.float64, requires_grad=True)
optimiser = torch.optim.LBFGS([scores, logs], max_iter=100, line_search_fn="strong_wolfe")


def loss():
    optimiser.zero_grad()
    value = -mixed.MixedDirichlet(scores, logs.exp()).log_prob(day).mean()
    value.backward()
    return value


optimiser.step(loss)
fitted = mixed.MixedDirichlet(scores.detach(), logs.detach().exp())
corners = fitted.face_probs()[mixed.faces(3).sum(-1) == 1].sum().item()
places_only = sum(spent for face, spent in hours.items() if sum(face) == 1)
print(f"at a place: {24 * corners:.2f} h by the fit, {places_only:.2f} h in truth")

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.9, 3.5))
    viz.faces(day, labels=places, title="John's day", ax=axes[0], key=False)
    viz.faces(dirichlet, labels=places, title="a Dirichlet density", ax=axes[1], key=False)
    viz.faces(fitted.sample((24_000,)), labels=places, title="mixed Dirichlet", ax=axes[2], key=False)
plt.show()
