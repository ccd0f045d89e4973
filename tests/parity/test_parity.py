"""The same weights give the same logits here and at every peer, in both directions.

In the small form models are cut to two blocks and see a few pictures; `full` (make scoreboard) runs whole models on
200 pictures each.
"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from oracles import randomise, timm, torchvision, transformers, vit_pytorch
from parity import google_npz
from vitrail import Artefact, ViT, convert, create_model, load

TOLERANCE = 1e-5
SMALL, FULL = pytest.param(False, id="small"), pytest.param(True, id="full", marks=pytest.mark.full)
forms = pytest.mark.parametrize("full", [SMALL, FULL])


def assert_same_answers(ours, theirs, full, answer=lambda output: output):
    """Max difference 1e-5 and no other winner, on random pictures: 200 in full, 24 if they are large."""
    config = ours.config
    generator = torch.Generator().manual_seed(0)
    worst, flips = 0.0, 0
    batches = 3 if config.image_size[0] > 400 else 25
    with torch.inference_mode():
        for _ in range(batches if full else 1):
            images = torch.randn(8, config.channels, *config.image_size, generator=generator)
            mine, other = ours.eval()(images), answer(theirs.eval()(images))
            worst = max(worst, (mine - other).abs().max().item())
            flips += (mine.argmax(1) != other.argmax(1)).sum().item()
    assert worst <= TOLERANCE
    assert flips == 0


def cut_short(full, **words):
    return words if full else {**words, "depth": 2}


# ---- timm -----------------------------------------------------------------------------------------------------------

TIMM = {
    "vit_tiny_patch16_224": {},
    "vit_small_patch16_224": {},
    "vit_base_patch16_224": {},
    "vit_tiny_patch16_384": {},
    "vit_small_patch32_384": {},
    "vit_base_patch16_384": {},
    "vit_small_patch14_dinov2": {"num_classes": 12},
    "vit_small_patch14_reg4_dinov2": {"num_classes": 12},
    "vit_small_r26_s32_224": {},
    "vit_base_r50_s16_224": {},
    "vit_tiny_r_s16_p8_224": {},
    "mae, mean of patches, class token kept": {"global_pool": "avg", "fc_norm": True},
    "mean without class token": {"global_pool": "avg", "class_token": False},
    "mean, norm first": {"global_pool": "avg", "class_token": False, "fc_norm": False},
    "attention pool": {"global_pool": "map", "class_token": False},
    "no positions, q and k normed, no qkv bias": {"pos_embed": "none", "qk_norm": True, "qkv_bias": False},
    "rectangle": {"img_size": (64, 96)},
    "one channel": {"in_chans": 1, "img_size": 64},
}


def timm_model(case, full):
    name = case if case.startswith("vit_") else "vit_tiny_patch16_224"
    words = {"num_classes": 12, **TIMM[case]}
    return randomise(timm().create_model(name, **cut_short(full, **words)))


@forms
@pytest.mark.parametrize("case", TIMM)
def test_from_timm(case, full, tmp_path):
    theirs = timm_model(case, full)
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    known = {"image_size": TIMM[case]["img_size"]} if "img_size" in TIMM[case] else {}
    known |= {"pool": "mean"} if TIMM[case].get("global_pool") == "avg" else {}
    if case.startswith("no positions"):
        known = {"image_size": 224}
    assert_same_answers(load(tmp_path / "theirs.safetensors", **known).model, theirs, full)


@forms
@pytest.mark.parametrize("case", TIMM)
def test_to_timm(case, full, tmp_path):
    """Our folder opens in timm by its own `local-dir:` loader, strictly."""
    source = timm_model(case, full=full)
    save_file(source.state_dict(), tmp_path / "start.safetensors")
    known = {"image_size": source.patch_embed.img_size}
    known |= {"pool": "mean"} if source.global_pool == "avg" else {}
    ours = randomise(load(tmp_path / "start.safetensors", **known).model, seed=1)
    convert(Artefact(ours, classes=tuple("abcdefghijkl")), tmp_path / "ours", to="timm")
    assert_same_answers(ours, timm().create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True), full)


@forms
@pytest.mark.parametrize("name", ["vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2"])
def test_dinov2_positions_used_at_224(name, full, tmp_path):
    """Positions of a 37x37 grid, interpolated to 16x16, as timm does when it is asked for 224 pixels."""
    save_file(timm_model(name, full).state_dict(), tmp_path / "518.safetensors")
    theirs = timm().create_model(name, **cut_short(full, img_size=224, num_classes=12))
    weights = timm().models.load_state_dict(str(tmp_path / "518.safetensors"))
    theirs.load_state_dict(timm().models.vision_transformer.checkpoint_filter_fn(weights, theirs))
    assert_same_answers(load(tmp_path / "518.safetensors", image_size=224).model, theirs, full)


@pytest.mark.parametrize("name", ["vit_base_r50_s16_224", "vit_small_r26_s32_224", "vit_tiny_r_s16_p8_224"])
def test_hybrids_have_timms_number_of_weights(name):
    with torch.device("meta"):
        ours, theirs = create_model(name, num_classes=1000), timm().create_model(name, num_classes=1000)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("name", ["R18", "R50"])
def test_resnets_to_and_from_timm(name, tmp_path):
    ours = randomise(create_model(name, num_classes=5, image_size=64))
    convert(Artefact(ours), tmp_path / "ours", to="timm")
    again = load(tmp_path / "ours", image_size=64).model
    assert again.config == ours.config
    assert_same_answers(ours, again, full=False)
    if name == "R50":  # timm's resnetv2_18 has BatchNorm
        assert_same_answers(ours, timm().create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True), full=False)


def test_dinov2s_own_names(tmp_path):
    """Meta's files: `register_tokens`, `mask_token`, and a position for the class token but none for the registers."""
    ours = randomise(create_model("vit_small_patch14_reg4_dinov2", image_size=56, num_classes=0, depth=2))
    state = ours.state_dict()
    place = torch.randn(1, 1, 384)
    state["register_tokens"] = state.pop("reg_token")
    state["mask_token"] = torch.zeros(1, 384)
    state["cls_token"] = state["cls_token"] - place
    state["pos_embed"] = torch.cat([place, state["pos_embed"]], dim=1)
    torch.save({"model": state}, tmp_path / "dinov2.pth")
    assert_same_answers(ours, load(tmp_path / "dinov2.pth").model, full=False)


@forms
def test_distilled_deit_both_ways(full, tmp_path):
    """Two tokens with a head each, whose mean is the answer: here one layer that reads both."""
    theirs = randomise(timm().create_model("deit_tiny_distilled_patch16_224", **cut_short(full, num_classes=12)))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours = load(tmp_path / "theirs.safetensors").model
    assert (ours.config.distill_token, ours.config.prefix_tokens) == (True, 2)
    assert_same_answers(ours, theirs, full)
    convert(Artefact(randomise(ours, seed=1)), tmp_path / "ours", to="timm")
    assert_same_answers(ours, timm().create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True), full)


# ---- Hugging Face ---------------------------------------------------------------------------------------------------

HUGGINGFACE = {
    "ViTForImageClassification": {},
    "Dinov2ForImageClassification": {"patch_size": 14},
    "Dinov2WithRegistersForImageClassification": {"patch_size": 14},
}


def huggingface_model(name, full, **changes):
    family = name.removesuffix("ForImageClassification").removesuffix("Model").removesuffix("ForPreTraining")
    sizes = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 12 if full else 2}
    words = {**sizes, "intermediate_size": 1536, "image_size": 224, "num_labels": 7, **changes}
    config = getattr(transformers(), f"{family}Config")(**words)
    return randomise(getattr(transformers(), name)(config))


@forms
@pytest.mark.parametrize("name", HUGGINGFACE)
def test_from_huggingface(name, full, tmp_path):
    theirs = huggingface_model(name, full, **HUGGINGFACE[name])
    theirs.config.id2label = dict(enumerate(["ant", "bee", "cat", "dog", "eel", "fox", "gnu"]))
    theirs.save_pretrained(tmp_path)
    found = load(tmp_path)
    assert found.classes == ("ant", "bee", "cat", "dog", "eel", "fox", "gnu")
    assert_same_answers(found.model, theirs, full, lambda output: output.logits)


@forms
@pytest.mark.parametrize("name", HUGGINGFACE)
def test_to_huggingface(name, full, tmp_path):
    huggingface_model(name, full, **HUGGINGFACE[name]).save_pretrained(tmp_path / "start")
    ours = randomise(load(tmp_path / "start").model, seed=1)
    convert(Artefact(ours, classes=tuple("abcdefg")), tmp_path / "ours", to="huggingface")
    theirs, problems = getattr(transformers(), name).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(problems.values()), problems
    assert theirs.config.id2label[2] == "c"
    assert_same_answers(ours, theirs, full, lambda output: output.logits)


@pytest.mark.parametrize("name", ["ViTModel", "Dinov2Model", "ViTMAEModel"])
def test_huggingface_backbones(name, tmp_path):
    """Encoders without a classifier: the class token after the last norm. MAE masks nothing here."""
    theirs = huggingface_model(name, False, **({"mask_ratio": 0.0} if "MAE" in name else {}))
    theirs.save_pretrained(tmp_path)
    if name == "ViTMAEModel":  # it shuffles patches even when it keeps them all, so the class token is what to compare
        torch.manual_seed(0)
    ours = load(tmp_path).model
    assert_same_answers(ours, theirs, False, lambda output: output.last_hidden_state[:, 0])


def test_mae_pretraining_file_gives_its_encoder(tmp_path):
    sizes = {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    theirs = huggingface_model("ViTMAEForPreTraining", False, decoder_intermediate_size=32, mask_ratio=0.0, **sizes)
    theirs.save_pretrained(tmp_path)
    assert_same_answers(load(tmp_path).model, theirs.vit, False, lambda output: output.last_hidden_state[:, 0])


def test_attention_equals_eager_huggingface(tmp_path):
    theirs = huggingface_model("ViTForImageClassification", False, image_size=64, attn_implementation="eager")
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path).model
    images = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(images, output_attentions=True).attentions
        found = ours.attention(images)
    assert len(found) == len(expected) == 2
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=0)


# ---- torchvision, vit-pytorch, Google -------------------------------------------------------------------------------


def torchvision_model(full, **changes):
    words = {"image_size": 224, "patch_size": 16, "num_layers": 12 if full else 2, "num_heads": 6, "hidden_dim": 384}
    model = torchvision().models.VisionTransformer(**{**words, "mlp_dim": 1536, "num_classes": 7, **changes})
    return randomise(model)


@forms
@pytest.mark.parametrize("pre_logits", [None, 100])
def test_torchvision_both_ways(full, pre_logits, tmp_path):
    theirs = torchvision_model(full, representation_size=pre_logits)
    torch.save(theirs.state_dict(), tmp_path / "theirs.pth")
    ours = load(tmp_path / "theirs.pth").model
    assert_same_answers(ours, theirs, full)
    convert(Artefact(randomise(ours, seed=1)), tmp_path / "ours.pth", to="torchvision")
    theirs.load_state_dict(torch.load(tmp_path / "ours.pth", weights_only=True))
    assert_same_answers(ours, theirs, full)


@forms
@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("heads", [4, 1])
def test_vit_pytorch_both_ways(full, pool, heads, tmp_path):
    dim = 64 if heads == 1 else 256
    words = {"image_size": 128, "patch_size": 16, "num_classes": 7, "dim": dim, "depth": 6 if full else 2}
    theirs = randomise(vit_pytorch().ViT(**words, heads=heads, mlp_dim=512, pool=pool))
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    ours = load(tmp_path / "theirs.pt").model
    assert_same_answers(ours, theirs, full)
    if heads > 1:  # with one head of full width vit-pytorch has no output projection to hold ours
        convert(Artefact(randomise(ours, seed=1)), tmp_path / "ours.safetensors", to="vit-pytorch")
        theirs.load_state_dict(timm().models.load_state_dict(str(tmp_path / "ours.safetensors")))
        assert_same_answers(ours, theirs, full)


@forms
@pytest.mark.parametrize("name", ["vit_small_patch16_224", "vit_small_r26_s32_224", "vit_tiny_r_s16_p8_224"])
def test_google_npz_both_ways(name, full, tmp_path):
    """Ours is read by timm's own npz loader; a file written from timm's weights by the tests is read by ours."""
    ours = randomise(create_model(name, **cut_short(full, num_classes=9)))
    convert(Artefact(ours), tmp_path / "ours.npz", to="google")
    theirs = timm().create_model(name, **cut_short(full, num_classes=9))
    theirs.load_pretrained(str(tmp_path / "ours.npz"))
    assert_same_answers(ours, theirs, full)

    theirs = randomise(theirs, seed=1)
    google_npz.write(theirs, tmp_path / "theirs.npz")
    assert_same_answers(load(tmp_path / "theirs.npz").model, theirs, full)


def test_google_npz_with_pre_logits(tmp_path):
    ours = randomise(create_model("Ti/16", depth=1, image_size=32, num_classes=4, head="tanh", head_dim=100))
    convert(Artefact(ours), tmp_path / "ours.npz", to="google")
    again = load(tmp_path / "ours.npz").model
    assert again.config == ours.config
    assert_same_answers(ours, again, full=False)


def test_our_own_file_is_timms(tmp_path):
    """A vitrail file opens in timm as it is."""
    ours = randomise(create_model("vit_tiny_patch16_224", num_classes=4, depth=2))
    Artefact(ours, classes=("a", "b", "c", "d")).save(tmp_path / "model.safetensors")
    theirs = timm().create_model("vit_tiny_patch16_224", num_classes=4, depth=2)
    theirs.load_state_dict(timm().models.load_state_dict(str(tmp_path / "model.safetensors")))
    assert_same_answers(ours, theirs, full=False)


def test_vit_with_vit_pytorchs_parts_equals_vit_pytorch():
    words = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 64, "depth": 2, "heads": 2, "mlp_dim": 96}
    ours = ViT(**words, patches="linear", patch_norm=True, qkv_bias=False, norm_eps=1e-5)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in vit_pytorch().ViT(**words).parameters())
