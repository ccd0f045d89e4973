"""The same fine-tuning by others: a folder of pictures, the same weights, the same minutes on the same machine.

    python benchmarks/transfer.py PEER DATA WEIGHTS [--minutes 20] [--size 154] [--out FILE]

PEER is `transformers` (its Trainer with the settings of its image-classification example) or `timm` (its model,
transforms, optimiser with layer decay, and cosine schedule in a plain loop). DATA has the folders train, val and test;
WEIGHTS is anything `vitrail.load` opens. Prints one JSON document: test accuracy at the end, and
validation accuracy over time. `vitrail train DATA --from WEIGHTS --minutes 20 --json` is our side of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.bench.peers import mend_torchvision
from vitrail.data.examples import Examples
from vitrail.data.images import open_image
from vitrail.data.sources import open_data
from vitrail.train.recipe import IMAGENET_MEAN, IMAGENET_STD
from vitrail.weights.adapt import adapt
from vitrail.weights.convert import convert
from vitrail.weights.load import load


class Pictures(torch.utils.data.Dataset[Any]):
    """One split as pairs of a transformed picture and its class, opened as vitrail opens them."""

    def __init__(self, examples: Examples, split: str, transform: Callable[[Any], torch.Tensor]) -> None:
        self.examples, self.indices, self.transform = examples, examples.split(split), transform

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: int) -> dict[str, Any]:
        index = int(self.indices[place])
        image = open_image(self.examples.pictures.name(index)).convert("RGB")
        return {"pixel_values": self.transform(image), "labels": int(self.examples.targets[index])}


@torch.inference_mode()
def accuracy(model: torch.nn.Module, pictures: Pictures) -> float:
    model.eval()
    right = 0
    for batch in torch.utils.data.DataLoader(pictures, batch_size=32):
        logits = model(batch["pixel_values"])
        right += int(
            ((logits if isinstance(logits, torch.Tensor) else logits.logits).argmax(1) == batch["labels"]).sum()
        )
    return right / len(pictures)


def with_transformers(examples: Examples, weights: Path, minutes: float, size: int) -> dict[str, Any]:
    """As in transformers' examples/pytorch/image-classification, but for the steps, which fill the minutes."""
    import transformers
    from torchvision.transforms import v2

    normal = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    training = v2.Compose([v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), *normal])
    plain = v2.Compose([v2.Resize(size), v2.CenterCrop(size), *normal])
    started, curve = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        convert(load(weights), source, to="huggingface")
        names = dict(enumerate(examples.classes))
        model = transformers.AutoModelForImageClassification.from_pretrained(
            source, id2label=names, label2id={v: k for k, v in names.items()}, ignore_mismatched_sizes=True
        )
        val = Pictures(examples, "val", plain)

        class Clock(transformers.TrainerCallback):
            """Validates after each epoch, and makes the schedule end with the minutes."""

            def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
                curve.append((time.monotonic() - started, accuracy(model, val)))
                model.train()

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
                control.should_training_stop |= time.monotonic() - started >= minutes * 60
                return control

        a_step = _seconds_a_step(model, Pictures(examples, "train", training), batch=8)
        steps = max(1, int((minutes * 60 - (time.monotonic() - started)) / a_step))
        arguments = transformers.TrainingArguments(
            output_dir=str(Path(folder) / "out"),
            learning_rate=2e-5,
            per_device_train_batch_size=8,
            max_steps=steps,
            remove_unused_columns=False,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            logging_steps=100,
        )
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=Pictures(examples, "train", training), callbacks=[Clock()]
        )
        trainer.train()
    trained = time.monotonic() - started
    return {"seconds": trained, "steps": trainer.state.global_step, "validation": curve, "model": (model, plain)}


def _seconds_a_step(model: torch.nn.Module, pictures: Pictures, batch: int) -> float:
    """Of a few steps without their update, which leave the weights as they are."""
    taken = []
    model.train()
    for found in torch.utils.data.DataLoader(torch.utils.data.Subset(pictures, range(4 * batch)), batch_size=batch):
        start = time.monotonic()
        model(**found).loss.backward()
        model.zero_grad()
        taken.append(time.monotonic() - start)
    return float(np.median(taken)) * 1.1


def with_timm(examples: Examples, weights: Path, minutes: float, size: int) -> dict[str, Any]:
    """timm's model, transforms and optimiser: AdamW, layer decay 0.75, cosine over the minutes."""
    import timm.data
    import timm.optim

    source = load(weights)
    config, state = adapt(source.model.config, source.model.state_dict(), image_size=size)
    name = "vit_small_patch14_dinov2" if config.layer_scale else "vit_small_patch16_224"
    model = timm.create_model(name, img_size=size, num_classes=len(examples.classes))
    missing = model.load_state_dict({k: v for k, v in state.items() if not k.startswith("head.")}, strict=False)
    assert set(missing.missing_keys) <= {"head.weight", "head.bias"}, missing
    stated = {"input_size": (3, size, size), "mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    training = timm.data.create_transform(**stated, is_training=True, auto_augment="rand-m9-mstd0.5-inc1")
    plain = timm.data.create_transform(**stated, crop_pct=1.0)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-4, weight_decay=0.05, layer_decay=0.75)
    rates = [group["lr"] * group.get("lr_scale", 1.0) for group in optimizer.param_groups]
    loader = torch.utils.data.DataLoader(
        Pictures(examples, "train", training), batch_size=32, shuffle=True, drop_last=True
    )
    val, started, curve, steps = Pictures(examples, "val", plain), time.monotonic(), [], 0
    while time.monotonic() - started < minutes * 60:
        model.train()
        for batch in loader:
            share = min(1.0, (time.monotonic() - started) / (minutes * 60))
            factor = min(1.0, share / 0.1) * 0.5 * (1 + np.cos(np.pi * share))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            loss = torch.nn.functional.cross_entropy(model(batch["pixel_values"]), batch["labels"], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if share >= 1:
                break
        curve.append((time.monotonic() - started, accuracy(model, val)))
    return {"seconds": time.monotonic() - started, "steps": steps, "validation": curve, "model": (model, plain)}


PEERS = {"transformers": with_transformers, "timm": with_timm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("data")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--size", type=int, default=154)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    mend_torchvision()
    torch.manual_seed(0)
    examples = open_data(words.data)
    found = PEERS[words.peer](examples, words.weights, words.minutes, words.size)
    model, plain = found.pop("model")
    document = {"peer": words.peer, "test_accuracy": accuracy(model, Pictures(examples, "test", plain)), **found}
    text = json.dumps(document, indent=1)
    print(text)
    if words.out:
        words.out.write_text(text)


if __name__ == "__main__":
    main()
