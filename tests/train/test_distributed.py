"""Two gloo processes and one: the same batches, gradient and curve; saved by either, resumed by either."""

from __future__ import annotations

import json
import shutil

import pytest

from train import tiny
from train.ranks import Ranks
from vitrail.errors import ConfigError
from vitrail.methods.registry import METHODS
from vitrail.methods.supervised import Supervised
from vitrail.model import build
from vitrail.train import checkpoint
from vitrail.train.distributed import World, is_lost, joined, world
from vitrail.train.gradients import Alone, blocks_of, engine

ENGINES = ("ddp", "fsdp")


@pytest.fixture(scope="module")
def ranks():
    with Ranks() as ranks:
        yield ranks


@pytest.fixture(scope="module")
def alone(ranks, tmp_path_factory):
    """What one process comes to, by its settings; each run once."""
    known = {}

    def run(**wishes):
        key = json.dumps(wishes, sort_keys=True)
        if key not in known:
            known[key] = ranks.run(tmp_path_factory.mktemp("alone"), 1, **wishes)[0]
        return known[key]

    return run


def assert_same_curve(found, expected):
    assert found["losses"] == pytest.approx(expected["losses"], abs=1e-5)
    assert (found["step"], found["pictures"]) == (expected["step"], expected["pictures"])
    assert found["validations"] == expected["validations"]


# ---- the same gradient


@pytest.mark.parametrize("distribute", ENGINES)
def test_two_processes_give_the_curve_of_one(ranks, alone, tmp_path, distribute):
    """Twenty steps, the average of the weights with them."""
    expected = alone()
    assert len(expected["losses"]) == 20
    for found in ranks.run(tmp_path, 2, distribute=distribute):
        assert_same_curve(found, expected)


@pytest.mark.parametrize("distribute", ENGINES)
def test_shares_that_differ_weigh_what_they_hold(ranks, alone, tmp_path, distribute):
    """Seven pictures for two processes, some that cannot be opened, two batches a step."""
    wishes = {"batch_size": 7, "bad": 8, "accumulate": 2, "budget": {"steps": 6}}
    for found in ranks.run(tmp_path, 2, distribute=distribute, **wishes):
        assert_same_curve(found, alone(**wishes))


@pytest.mark.parametrize("distribute", ENGINES)
def test_a_process_without_a_picture_takes_part(ranks, alone, tmp_path, distribute):
    """Batches of two, of which many lose one picture and some lose both."""
    wishes = {"batch_size": 2, "bad": 20, "budget": {"steps": 10}}
    for found in ranks.run(tmp_path, 2, distribute=distribute, **wishes):
        assert_same_curve(found, alone(**wishes))


@pytest.mark.parametrize("method", ["weighted", *METHODS])
def test_every_method_gives_the_curve_of_one_process(ranks, alone, tmp_path, method):
    wishes = {"method": method, "budget": {"steps": 4}}
    for found in ranks.run(tmp_path, 2, **wishes):
        assert_same_curve(found, alone(**wishes))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_with_shares_that_differ(ranks, alone, tmp_path, method):
    """Three pictures for two processes, some of which cannot be opened: now and then one has none."""
    wishes = {"method": method, "batch_size": 3, "bad": 15, "budget": {"steps": 5}}
    for found in ranks.run(tmp_path, 2, **wishes):
        assert_same_curve(found, alone(**wishes))


def test_batch_norm_counts_each_processs_own_pictures_and_weights_stay_the_same(ranks, tmp_path):
    model = tiny.settings().model.replace(dropout=0.0, stem="conv").to_dict()
    first, second = ranks.run(tmp_path, 2, model=model, average=0.0, budget={"steps": 4})
    learned = [name for name in first["weights"] if "running" not in name]
    assert [name for name in learned if first["weights"][name] != second["weights"][name]] == []
    assert first["losses"] == second["losses"]


# ---- the same steps


def test_clocks_that_disagree_take_the_same_steps(ranks, tmp_path):
    """The second one's clock runs twice as fast; the first one's counts."""
    first, second = ranks.run(tmp_path, 2, seconds=60.0)
    assert 5 < first["step"] == second["step"]
    assert first["validations"] == second["validations"]


@pytest.mark.parametrize("distribute", ENGINES)
def test_interrupted_in_one_process_all_save_and_resume_to_the_same_bits(ranks, tmp_path, distribute):
    """With dropout and mixed pictures, which draw from the stream of each process."""
    random = {"model": tiny.settings().model.to_dict(), "regularise": tiny.settings().regularise.to_dict()}
    wishes = {"distribute": distribute, "budget": {"steps": 12}, **random}
    whole = ranks.run(tmp_path / "whole", 2, **wishes)
    assert {len(tuple(found["losses"])) for found in whole} == {12}
    stopped = ranks.run(tmp_path / "parts", 2, code=130, stop=[1, 7], **wishes)
    assert {found["step"] for found in stopped} <= {7, 8}
    resumed = ranks.run(tmp_path / "parts", 2, **wishes)
    for before, after, expected in zip(stopped, resumed, whole, strict=True):
        assert before["losses"] + after["losses"] == expected["losses"]
        assert after["weights"] == expected["weights"]


@pytest.mark.parametrize("distribute", ENGINES)
def test_a_run_goes_on_with_another_number_of_processes(ranks, alone, tmp_path, distribute):
    """Two, then one, then two."""
    expected, losses = alone(), []
    for number, stop in ((2, 6), (1, 11), (2, None)):
        stopped = {} if stop is None else {"code": 130, "stop": [0, stop]}
        found = ranks.run(tmp_path, number, distribute=distribute, **stopped)
        losses += found[0]["losses"]
    assert losses == pytest.approx(expected["losses"], abs=1e-5)


# ---- split checkpoints


@pytest.mark.parametrize("damaged", ["shard-00002-model-00001-of-00001.safetensors", "state.json", "manifest.json"])
def test_a_damaged_split_checkpoint_is_named_and_the_one_before_is_used(tmp_path, split_run, damaged):
    folder = tmp_path / "run"
    shutil.copytree(split_run, folder)
    path = folder / "checkpoints" / "step-00000020" / damaged
    spoilt = bytearray(path.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    path.write_bytes(spoilt)
    found, faults = checkpoint.load_newest(folder / "checkpoints")
    assert found is not None
    assert found.step == 15
    assert "damaged" in str(faults[0])
    path.unlink()
    found, faults = checkpoint.load_newest(folder / "checkpoints")
    assert (found.step, len(faults)) == (15, 1)


@pytest.fixture(scope="module")
def split_run(ranks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("split")
    ranks.run(folder, 2, distribute="fsdp")
    return folder


def test_a_split_checkpoint_holds_what_a_whole_one_does(split_run, ranks, tmp_path):
    ranks.run(tmp_path, 2)
    split, _ = checkpoint.load_newest(split_run / "checkpoints")
    whole, _ = checkpoint.load_newest(tmp_path / "checkpoints")
    assert {name: tensor.shape for name, tensor in split.tensors.items()} == {
        name: tensor.shape for name, tensor in whole.tensors.items()
    }
    assert not list((split_run / "checkpoints").glob(".saving-*"))


# ---- without processes


def test_one_process_is_trained_as_it_is(tmp_path):
    assert world() == World(0, 1)
    trainer = tiny.trainer(tmp_path / "run")
    assert trainer.engine.forward is trainer.method
    trainer.run.close()
    assert World().sum(1.5, 2) == [1.5, 2]
    assert World().gather("x") == ["x"]
    with joined() as alone:
        assert alone == World()


def test_what_does_not_go_with_fsdp_is_refused():
    for changes, said in (
        ({"optim": {"name": "muon"}}, "use optim.name=adamw with distribute=fsdp"),
        ({"precision": "float16"}, "use precision=bfloat16"),
    ):
        settings = tiny.settings(distribute="fsdp", **changes)
        method = Supervised(build(settings.model), 3, settings.regularise, 0, None)
        with pytest.raises(ConfigError, match=said):
            engine(settings, method, [], World(0, 2))
        assert isinstance(engine(settings, method, [], World()), Alone)


def test_methods_that_move_weights_are_refused_by_fsdp():
    settings = tiny.settings(distribute="fsdp")
    kind = METHODS["dino"]
    encoder = build(settings.model.replace(num_classes=0, any_size=True))
    with pytest.raises(ConfigError, match="use distribute=ddp"):
        engine(settings, kind.build(encoder, kind.settings(), settings.image, 0), [], World(0, 2))


def test_blocks_are_what_is_gathered_one_by_one():
    settings = tiny.settings()
    method = Supervised(build(settings.model), 3, settings.regularise, 0, None)
    assert blocks_of(method) == list(method.model.blocks)


def test_a_lost_process_is_told_from_other_errors():
    assert is_lost(RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:4242"))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
