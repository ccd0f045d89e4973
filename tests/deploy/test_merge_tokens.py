"""Token merging: the sum of what tokens stand for never changes, alike patches go first, and ONNX does the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.families import made
from deploy.test_onnx import engine_of
from vitrail import Predictor, load
from vitrail.deploy.merge_tokens import merging
from vitrail.deploy.onnx import onnx_bytes
from vitrail.errors import ConfigError
from vitrail.model.merging import merge

NOISE = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)
FAMILIES = ["class token", "mean", "registers", "class and mean", "attention pool", "layers read together"]


@settings(max_examples=30)
@given(patches=st.integers(2, 20), prefix=st.integers(0, 3), seed=st.integers(0, 99), data=st.data())
def test_merging_keeps_every_sum(patches, prefix, seed, data):
    count = data.draw(st.integers(1, patches // 2))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, prefix + patches, 5, generator=generator, dtype=torch.float64)
    sizes = torch.randint(1, 4, (2, prefix + patches, 1), generator=generator).double()
    merged, new = merge(x, sizes, torch.randn(2, prefix + patches, 3, generator=generator).double(), prefix, count)
    assert merged.shape == (2, prefix + patches - count, 5)
    assert torch.allclose((merged * new).sum(1), (x * sizes).sum(1))
    assert torch.equal(new.sum(1), sizes.sum(1))
    assert torch.allclose(merged[:, :prefix], x[:, :prefix])


def test_the_most_alike_become_one():
    alike = torch.eye(4)[None].clone()
    alike[0, 2] = alike[0, 3]  # patches 2 and 3 are the same; 0 and 1 are not
    x = torch.arange(4.0).reshape(1, 4, 1)
    merged, sizes = merge(x, torch.ones(1, 4, 1), alike, 0, 1)
    assert sorted(merged.flatten().tolist()) == [0.0, 1.0, 2.5]
    assert sizes[merged == 2.5].tolist() == [2.0]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_merging_is_the_model_itself(family):
    """With nothing to merge the other way through the blocks comes to the same."""
    from vitrail.model.merging import MergingViT

    artefact = made(family)
    walk = MergingViT.from_config(artefact.model.config).eval()
    walk.load_state_dict(artefact.model.state_dict())
    images = torch.randn(2, 3, 32, 32)
    assert torch.allclose(walk(images), artefact.model(images), atol=1e-5)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "standard"])
@pytest.mark.parametrize("family", FAMILIES)
def test_onnx_merges_the_same_patches(family, fused):
    artefact = merging(made(family), 5)
    wanted = Predictor.of(artefact).engine(NOISE)
    assert np.allclose(engine_of(onnx_bytes(artefact, fused=fused))(NOISE), wanted, atol=1e-4)
    assert np.abs(wanted - Predictor.of(made(family)).engine(NOISE)).max() > 1e-4, "merging changed nothing"


def test_copies_of_one_patch_merge_without_loss():
    """A picture of equal patches without positions gives the same answer, merged or not."""
    artefact = made("no positions")
    plain = np.full((1, 32, 32, 3), 90, np.uint8)
    assert np.allclose(
        Predictor.of(merging(artefact, 6)).engine(plain), Predictor.of(artefact).engine(plain), atol=1e-5
    )


def test_what_it_is_stays_in_the_file(tmp_path):
    merging(made("registers"), 3).save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", check=True)
    assert again.model.config.merge == 3
    assert again.classes


def test_where_patches_have_to_keep_their_places_they_are_not_merged():
    for family in ("rotary", "relative", "post-norm"):
        with pytest.raises(ConfigError, match="merge=0"):
            merging(made(family), 2)
    with pytest.raises(ConfigError, match="only a ViT"):
        merging(made("R18"), 2)
