"""What every distribution on the faces of a simplex has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from omegamax.mixed._faces import check_face, face_of, faces, on_faces


class Mixed(torch.distributions.Distribution):
    r"""A distribution on the closed simplex that may give mass to each of its faces: vertices, ..., the interior.

    Points are ``[*, K]``, non-negative and of sum one. The face of a point is its support, a non-empty set of k of the
    K vertices, written as a bool tensor ``[*, K]``; the relative interiors of the faces split the simplex.

    **Densities** are with respect to the direct sum of the Lebesgue measures of the faces: counting measure on the
    vertices and, on a face of k vertices, :math:`dy_1 \cdots dy_{k-1}` in all its coordinates but one. It does not
    matter which one is left out. So a face of k vertices has the volume :math:`1 / (k - 1)!`, an edge the length 1, and

    .. math:: \sum_{f} \int_{\mathrm{ri} f} p(y) \, dy = 1, \qquad
              P_F(f) = \int_{\mathrm{ri} f} p(y) \, dy, \qquad p(y) = P_F(f) \, p(y \mid f).

    Entropies are those of this measure, in nats: :math:`H(Y) = H(F) + \sum_f P_F(f) \, h(Y \mid f)`.

    A subclass gives ``log_prob``, ``sample`` or ``rsample``, ``log_face_prob`` and ``expand``.

    Reference: Farinhas et al. (ICLR 2022).
    """

    def __init__(self, batch_shape: torch.Size, event_shape: torch.Size, validate_args: bool | None = None) -> None:
        # torch's checks of vectors fail on a batch of none.
        empty = batch_shape.numel() == 0
        super().__init__(batch_shape, event_shape, validate_args=False if empty else validate_args)
        if empty and validate_args is not None:
            self._validate_args = validate_args

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """Return the closed simplex; unlike torch's ``constraints.simplex`` its slack follows the dtype."""
        return on_faces

    @property
    def vertices(self) -> int:
        """Return K, the number of entries of a point."""
        return self._event_shape[0]

    @staticmethod
    def face(value: Tensor) -> Tensor:
        """Return the face of points ``[*, K]``, bool of the same shape: where they are positive."""
        return face_of(value)

    def prob(self, value: Tensor) -> Tensor:
        """Return the density at points ``[*, K]``, with respect to the direct sum measure.

        At a vertex that is its probability.
        """
        return self.log_prob(value).exp()

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch)."""
        raise NotImplementedError

    def face_probs(self) -> Tensor:
        """Return probabilities of all faces, ``[*, 2^K - 1]``, in the order of :func:`omegamax.mixed.faces`."""
        every = faces(self.vertices, self._device)
        every = every.reshape(-1, *(1,) * len(self._batch_shape), self.vertices)
        return self.log_face_prob(every).exp().movedim(0, -1)

    def nonzeros(self) -> Tensor:
        """Return the expected number of non-zero entries, ``[*]``."""
        size = faces(self.vertices, self._device).sum(-1)
        probs = self.face_probs()
        return probs @ size.to(probs.dtype)

    @property
    def _device(self) -> torch.device:
        raise NotImplementedError

    def _check_value(self, value: Tensor) -> None:
        if self._validate_args and value.numel():
            self._validate_sample(value)

    def _check_face(self, face: Tensor) -> Tensor:
        name = f"{type(self).__name__}.log_face_prob"
        return check_face(name, face, self.vertices, bool(self._validate_args))
