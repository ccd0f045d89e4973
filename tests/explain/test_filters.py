"""The embedding's filters, beside scikit-learn's PCA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from oracles import randomise
from vitrail.explain.filters import embedding_filters, why_no_filters
from vitrail.model.vit import ViT

SHAPE = {"image_size": (24, 16), "patch_size": (6, 4), "num_classes": 3, "depth": 1, "heads": 2, "mlp_dim": 8}


def made(**parts: Any) -> ViT:
    return randomise(ViT(**{**SHAPE, "dim": 48, **parts}))


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_they_are_the_principal_components(channels: int) -> None:
    model = made(channels=channels)
    found = embedding_filters(model)
    kernel = model.state_dict()["patch_embed.proj.weight"].numpy()  # D C P Q
    expected = PCA(min(28, 6 * 4 * channels)).fit(kernel.reshape(48, -1).astype(np.float64))
    shown = found.values.transpose(0, 3, 1, 2).reshape(len(found.values), -1)
    np.testing.assert_allclose(found.variance[:20], expected.explained_variance_ratio_[:20], rtol=1e-6)
    np.testing.assert_allclose(abs((shown * expected.components_).sum(axis=1))[:20], 1, rtol=1e-5)
    assert found.values.shape[1:] == (6, 4, channels)


def test_a_linear_embedding_has_the_same_filters_as_the_equal_convolution() -> None:
    linear, conv = made(patches="linear"), made()
    weight = conv.state_dict()["patch_embed.proj.weight"]
    linear.patch_embed.proj.weight.data = weight.permute(0, 2, 3, 1).flatten(1)
    np.testing.assert_allclose(embedding_filters(linear).values, embedding_filters(conv).values, atol=1e-6)


def test_signs_are_settled_and_few_are_fine() -> None:
    found = embedding_filters(made(dim=4, dim_head=2))
    flat = found.values.reshape(len(found.values), -1)
    assert len(flat) == len(found.variance) == 4
    assert (flat.max(axis=1) == abs(flat).max(axis=1)).all()


def test_a_stem_has_none() -> None:
    assert why_no_filters(made()) is None
    assert "conv stem" in (why_no_filters(made(stem="conv")) or "")
