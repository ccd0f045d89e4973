"""`--paper`: what the paper did, in the place of what pays here."""

from __future__ import annotations

from train.test_recipe import facts
from vitrail.model.sizes import model_config
from vitrail.train.paper import as_in_the_paper, papers_size
from vitrail.train.recipe import Choice, from_scratch, from_weights
from vitrail.train.settings import Budget


def test_the_papers_protocol():
    scratch = as_in_the_paper(from_scratch(facts(), Budget(epochs=300), 0), 5000).settings
    assert (scratch.model.stem, scratch.model.pool, scratch.model.positions) == ("none", "cls", "learned")
    assert (scratch.optim.name, scratch.optim.weight_decay, scratch.optim.lr) == ("adamw", 0.3, 3e-3)  # table 3
    tuned = from_weights(facts(), Budget(steps=500), 0, "w", model_config("B/16"))
    paper = as_in_the_paper(Choice(*tuned), 5000).settings
    assert (paper.optim.name, paper.optim.momentum, paper.optim.weight_decay) == ("sgd", 0.9, 0.0)  # table 4
    assert (paper.model.pool, paper.model.read_layers) == ("cls", ())
    assert (paper.regularise.label_smoothing, paper.regularise.cutmix) == (0.0, 0.0)


def test_reasons_are_of_the_protocol_too_where_it_chooses():
    tuned = as_in_the_paper(from_weights(facts(), Budget(minutes=20), 0, "w", model_config("B/16")), 5000).reasons
    assert {tuned[key] for key in ("optim", "augment", "regularise", "model", "batch_size")} == {"as in the paper"}
    assert (
        as_in_the_paper(from_scratch(facts(), Budget(minutes=20), 0), 5000).reasons["batch_size"] != "as in the paper"
    )


def test_384_pixels_or_as_near_as_patches_come():
    assert papers_size(model_config("vit_small_patch14_dinov2")) == (378, 378)
    assert papers_size(model_config("B/16")) == (384, 384)
