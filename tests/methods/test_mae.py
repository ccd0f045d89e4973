"""MAE beside transformers' with its weights and the same mask, and beside the formula."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from methods import tiny_methods
from oracles import randomise, transformers
from vitrail.config import Preprocessing
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws
from vitrail.methods.mae import MAE, MAESettings
from vitrail.model.patches import cut
from vitrail.weights.load import load

DECODER = {
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "attention.output.dense": "attn.proj",
}


def theirs(folder, normalise):
    """transformers' model with random weights, as it writes itself to disk."""
    library = transformers()
    config = library.ViTMAEConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4,
        decoder_hidden_size=64, decoder_num_hidden_layers=2, decoder_num_attention_heads=2,
        decoder_intermediate_size=256, norm_pix_loss=normalise, mask_ratio=0.75, layer_norm_eps=1e-6,
    )  # fmt: skip
    model = randomise(library.ViTMAEForPreTraining(config))
    model.decoder.initialize_weights(16)  # the positions of its 16 patches, which are fixed by a formula
    model.save_pretrained(folder)
    return model.eval()


def ours(folder, normalise):
    """The same weights in our encoder and decoder."""
    encoder = load(folder, num_classes=0).model
    image = Preprocessing(16, (0.5,) * 3, (0.5,) * 3)
    made = MAE(encoder, MAESettings(decoder_depth=2, decoder_dim=64, normalise=normalise), image, seed=0).eval()
    file = load_file(folder / "model.safetensors")
    state = {"mask_token": file["decoder.mask_token"]}
    for kind in ("weight", "bias"):
        names = {"decoder_embed": "embed", "decoder_norm": "norm", "decoder_pred": "head"}
        state |= {f"{our}.{kind}": file[f"decoder.{their}.{kind}"] for their, our in names.items()}
        for i in range(2):
            layer = f"decoder.decoder_encoder.layer.{i}"
            state |= {f"blocks.{i}.{our}.{kind}": file[f"{layer}.{their}.{kind}"] for their, our in DECODER.items()}
            parts = [file[f"{layer}.attention.attention.{part}.{kind}"] for part in ("query", "key", "value")]
            state[f"blocks.{i}.attn.qkv.{kind}"] = torch.cat(parts)
    made.decoder.load_state_dict(state, strict=True)
    return made


@pytest.mark.parametrize("normalise", [True, False])
def test_the_loss_is_that_of_transformers(tmp_path, normalise):
    model = theirs(tmp_path, normalise)
    made = ours(tmp_path, normalise)
    images, noise = torch.randn(4, 3, 16, 16), torch.rand(4, 16)
    with torch.no_grad():
        expected = model(images, noise=noise)
        mask = expected.mask.bool()
        made.choose = lambda _: mask
        draws = Draws(0, 0, torch.arange(4))
        predicted = made.predict(images, mask, draws)
        loss = made(Batch(images, torch.zeros(4), torch.arange(4)), 0, 0, 0.0)
    assert mask.sum(dim=1).tolist() == [12] * 4
    assert torch.allclose(predicted, expected.logits[mask], atol=1e-4)
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)


def test_the_encoder_never_sees_what_is_masked():
    made, given = tiny_methods.method("mae").eval(), tiny_methods.batch(4)
    draws = Draws(made.seed, 0, given.indices)
    mask = made.choose(draws)
    assert mask.sum(dim=1).tolist() == [12] * 4
    other = given.images.clone()
    hidden = mask.unflatten(1, (4, 4)).repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None].expand_as(other)
    other[hidden] = torch.randn(int(hidden.sum()))
    with torch.no_grad():
        first, second = (made.predict(images, mask, draws) for images in (given.images, other))
    assert torch.equal(first, second)


def test_targets_are_patches_by_their_own_spread():
    made, given = tiny_methods.method("mae"), tiny_methods.batch(2)
    patches = cut(given.images, (4, 4)).numpy()
    expected = (patches - patches.mean(-1, keepdims=True)) / (patches.var(-1, ddof=1, keepdims=True) + 1e-6) ** 0.5
    assert torch.allclose(made.targets(given.images), torch.from_numpy(expected), atol=1e-4)


def test_a_perfect_prediction_is_painted_as_the_picture_itself():
    made, given = tiny_methods.method("mae").eval(), tiny_methods.batch(3)
    made.predict = lambda images, mask, _: made.targets(images)[mask]
    shown = made.preview(given)
    assert torch.equal(shown.rebuilt, shown.original)
    assert not torch.equal(shown.masked, shown.original)


def test_the_mean_answer_has_the_variance_of_the_targets():
    made, given = tiny_methods.method("mae", normalise=False), tiny_methods.batch(8)
    patches = cut(given.images, (4, 4)).flatten(0, 1)
    assert made.yardstick(given.images) == pytest.approx(patches.var(dim=0, correction=0).mean().item(), rel=1e-4)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"decoder_dim": 33}, "multiple of 32"), ({"decoder_depth": 0}, "at least 1"), ({"mask": 1.0}, "between 0 and 1")],
)
def test_settings_that_cannot_work(wrong, said):
    with pytest.raises(ConfigError, match=said):
        tiny_methods.method("mae", **wrong)
