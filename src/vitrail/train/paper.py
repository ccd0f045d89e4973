"""The paper's protocol: tables 3 and 4, appendix B.1."""

from __future__ import annotations

from vitrail.config import Pair, ViTConfig
from vitrail.data.augment import Augmentation
from vitrail.methods.supervised import Regularisation
from vitrail.model.sizes import ModelConfig
from vitrail.train.optim import OptimSettings
from vitrail.train.recipe import Choice

TRAINING = OptimSettings(
    name="adamw", lr=3e-3, schedule="cosine", warmup=0.05, weight_decay=0.3, betas=(0.9, 0.999), clip=1.0
)
FINE_TUNING = OptimSettings(
    name="sgd", lr=0.01, schedule="cosine", warmup=0.05, weight_decay=0.0, momentum=0.9, clip=1.0
)
RATES = (0.001, 0.003, 0.01, 0.03)  # of fine-tuning, table 4
BATCH, SIZE = 512, 384


def papers_size(config: ModelConfig) -> Pair:
    """384 pixels, as near as whole patches come from below."""
    patch = config.patch_size if isinstance(config, ViTConfig) else (32, 32)
    return SIZE // patch[0] * patch[0], SIZE // patch[1] * patch[1]


def as_in_the_paper(choice: Choice, pictures: int) -> Choice:
    """Its protocol in the place of ours; data, size and budget stay."""
    settings = choice.settings
    plain = settings.replace(
        augment=Augmentation(crop="resized", scale=(0.05, 1.0), flip=settings.augment.flip),
        regularise=Regularisation(),
        average=0.0,
        balance="none",
        optim=FINE_TUNING if settings.start else TRAINING,
    )
    if settings.start is None and isinstance(plain.model, ViTConfig):
        parts = {"stem": "none", "pool": "cls", "class_token": None, "positions": "learned", "dropout": 0.1}
        plain = plain.replace(model=plain.model.replace(**parts, emb_dropout=0.1))
    elif isinstance(plain.model, ViTConfig):
        pool = plain.model.pool.replace("cls+mean", "cls")
        plain = plain.replace(model=plain.model.replace(pool=pool, read_layers=(), drop_path=0.0))
    reasons = choice.reasons | dict.fromkeys(("optim", "augment", "regularise", "model"), "as in the paper")
    if settings.start is not None:
        batch = min(settings.batch_size, pictures)
        together = max(1, min(BATCH, pictures) // batch)
        plain = plain.replace(batch_size=batch, accumulate=together, probe_first=False, lr_grid=RATES)
        reasons["batch_size"] = "as in the paper"
    return Choice(plain, reasons)
