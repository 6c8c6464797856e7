# SPDX-License-Identifier: Apache-2.0
"""The loss of distillation inside the trainer: its gradient, its mask, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from integrations.spy import QUIET, config, worker_telling
from integrations.tiny import tiny_model, tiny_tokenizer
from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards import RewardGroupRequest
from training.opd.distilling import DistillingSpy, Gradient, spread, tiny_teacher

pytestmark = QUIET

# What the stage and the trainer are told, in the three ways in which a token can leave the loss, and one without.
SCENES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all in the loss": ({}, {}),
    "a dropped group": ({}, {"drops": True}),
    "cut completions left out": ({}, {"mask_truncated": True}),
    "an older policy": ({"num_iterations": 2, "max_steps": 2}, {"mask_truncated": True}),
    "averages over sequences": ({"loss_type": "grpo"}, {}),
    "parts of a batch": ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}, {}),
}


def _drops_one(request: RewardGroupRequest) -> list[float]:
    if request.group_id.split("/")[2].startswith("1-"):
        raise RewardUnavailableError("503")
    return spread(request)


def _spy(folder: Path, scene: str = "all in the loss", **more: Any) -> DistillingSpy:
    """A spy that has made its steps in that scene."""
    fields, told = SCENES[scene]
    settings = {**told, **more}
    tell = _drops_one if settings.pop("drops", False) else spread
    worker = worker_telling(tell, on_unavailable="drop_group", max_dropped_fraction=0.5)
    with worker:
        spy = DistillingSpy(config(folder, **fields, **settings.pop("fields", {})), worker, **settings)
        spy.train()
    return spy


def _gpt2(seed: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    make: Any = GPT2Config
    sizes = {"vocab_size": 47, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return GPT2LMHeadModel(make(**sizes, **dropout, initializer_range=0.3)).double()


def _close(found: Gradient, expected: Gradient) -> None:
    for name, value in expected.items():
        scale = float(value.abs().max())
        assert torch.allclose(found[name], value, rtol=1e-3, atol=1e-5 * scale + 1e-8), name


@pytest.mark.parametrize("divergence", ["full", "sampled"])
@pytest.mark.parametrize("scene", SCENES)
def test_alpha_adds_exactly_the_stages_advantage_term(tmp_path: Path, scene: str, divergence: str) -> None:
    """grad(alpha) - grad(0) = alpha * the gradient of the stage's own policy loss, with its advantages and masks."""
    spy = _spy(tmp_path, scene, divergence=divergence, alpha=0.5)
    inputs = spy.inputs[-1]
    policy = spy.policy_gradient(inputs)
    assert max(float(each.abs().max()) for each in policy.values()) > 1e-4
    spy.alpha = 0.0
    pure = spy.gradient(inputs)
    for alpha in (0.5, 3.0):
        spy.alpha = alpha
        both = spy.gradient(inputs)
        _close({name: both[name] - pure[name] for name in both}, {name: alpha * policy[name] for name in policy})


@pytest.mark.parametrize("scene", SCENES)
def test_without_alpha_it_is_the_mean_divergence_of_the_tokens_in_the_loss(tmp_path: Path, scene: str) -> None:
    """The loss and its gradient are those of a plain formula over the tokens that the stage left in the loss."""
    spy = _spy(tmp_path, scene)
    inputs = spy.inputs[-1]
    mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    start = inputs["prompt_ids"].size(1) - 1
    models: list[Any] = [spy.model, spy.teacher]
    student, teacher = (
        model(input_ids=ids, attention_mask=attention).logits[:, start:-1].log_softmax(-1) for model in models
    )
    summed = ((student.exp() * (student - teacher.detach())).sum(-1) * mask).sum()
    # Two backward passes share the count of the whole batch where the batch comes in two parts.
    expected = summed / float(inputs["num_items_in_batch"])
    loss = spy.loss(inputs)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    _close(spy.gradient(inputs), spy._gradient_of(expected))


def test_what_the_stage_leaves_out_has_no_part(tmp_path: Path) -> None:
    """Other tokens in the rows of a dropped group change neither the loss nor the gradient."""
    spy = _spy(tmp_path, "a dropped group")
    inputs = spy.inputs[-1]
    out = inputs["tool_mask"].sum(1) == 0
    assert int(out.sum()) == 4
    others = {**inputs, "completion_ids": inputs["completion_ids"].clone()}
    others["completion_ids"][out] = 7
    assert spy.loss(others).item() == spy.loss(inputs).item()
    _close(spy.gradient(others), spy.gradient(inputs))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_gradient_agrees_with_finite_differences(tmp_path: Path, alpha: float) -> None:
    """The whole loss, in float64, along random directions of all weights at once."""
    spy = _spy(tmp_path, "an older policy", alpha=alpha)
    # Llama's norm works in float32 whatever its input is.
    spy.model, spy.teacher = _gpt2(0), _gpt2(1)
    # Within the clip's range, so that the loss is smooth here.
    inputs = {name: each.double() if name == "advantages" else each for name, each in spy.inputs[-1].items()}
    with torch.no_grad():
        mask = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        inputs["old_per_token_logps"] = spy._see(spy.model, inputs, mask).log_probs - 0.05
    gradient = spy.gradient(inputs)
    generator = torch.Generator().manual_seed(0)
    parameters = dict(spy.model.named_parameters())
    for _ in range(3):
        way = {
            name: torch.randn(each.shape, dtype=torch.float64, generator=generator) for name, each in parameters.items()
        }
        size = 1e-6
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                for name, each in parameters.items():
                    each.add_(sign * size * way[name])
                ends.append(spy.loss(inputs).item())
                for name, each in parameters.items():
                    each.sub_(sign * size * way[name])
        slope = sum(float((gradient[name] * way[name]).sum()) for name in parameters)
        assert (ends[0] - ends[1]) / (2 * size) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_the_metric_is_the_mean_divergence_of_a_token(tmp_path: Path) -> None:
    """Without parts and masks the loss is the metric; it is logged beside the stage's own metrics."""
    spy = _spy(tmp_path, fields={"learning_rate": 0.0})
    loss = spy.loss(spy.inputs[-1]).item()
    assert spy.logged["train/opd/reverse_kl"] == pytest.approx(loss, rel=1e-5)
    assert spy.logged["train/opd/reverse_kl"] > 0
    assert spy.logged["train/group/count"] == 2.0


def test_without_a_token_in_the_loss_there_is_no_metric_and_no_step(tmp_path: Path) -> None:
    """When every completion was cut and those are left out, nothing is claimed and no weight moves."""
    spy = _spy(tmp_path, "cut completions left out", ends=(), alpha=1.0)
    assert "train/opd/reverse_kl" not in spy.logged
    assert spy.loss(spy.inputs[-1]).item() == 0
    assert all(not each.any() for each in spy.gradient(spy.inputs[-1]).values())


def test_a_sum_over_samples_is_that_of_its_parts(tmp_path: Path) -> None:
    """Padding on either side has no part in it, and neither has a completion without a token."""
    spy = _spy(tmp_path)
    samples = [([5, 6, 7], [8, 9]), ([5], [10, 11, 12, 1]), ([6, 7], [])]
    parts = [spy.summed_divergence([each]) for each in samples[:2]]
    total, count = spy.summed_divergence(samples)
    assert count == 6
    assert total == pytest.approx(sum(each for each, _ in parts), rel=1e-5)
    assert [each for _, each in parts] == [2, 4]


def test_the_temperature_is_that_of_the_sampling(tmp_path: Path) -> None:
    """Both models are compared at the temperature that the student samples at."""
    spy = _spy(tmp_path, fields={"temperature": 2.0, "learning_rate": 0.0})
    inputs = spy.inputs[-1]
    warm = spy.loss(inputs).item()
    models: list[Any] = [spy.model, spy.teacher]
    for model in models:
        with torch.no_grad():
            model.get_output_embeddings().weight.mul_(0.5)
    spy.temperature = 1.0
    assert spy.loss(inputs).item() == pytest.approx(warm, rel=1e-4)


def test_the_teacher_stays_as_it_was(tmp_path: Path) -> None:
    """Steps leave its weights, its mode and its type alone, and it gets no gradient."""
    teacher = tiny_teacher().to(torch.bfloat16)
    before = {name: each.clone() for name, each in teacher.state_dict().items()}
    spy = _spy(tmp_path, teacher=teacher.train(), alpha=1.0)
    assert spy.state.global_step == 1
    assert not teacher.training
    assert all(each.grad is None and not each.requires_grad for each in teacher.parameters())
    assert all(each.dtype == torch.bfloat16 for each in teacher.parameters())
    assert all(torch.equal(each, before[name]) for name, each in teacher.state_dict().items())


def test_the_student_approaches_its_teacher(tmp_path: Path) -> None:
    """On the same prompts the divergence falls to a fraction within some steps, rewards taking no part."""
    spy = _spy(
        tmp_path,
        ends=None,
        fields={"max_steps": 12, "learning_rate": 1e-2, "lr_scheduler_type": "constant", "temperature": 1.0},
    )
    values = [each["train/opd/reverse_kl"] for each in spy.state.log_history if "train/opd/reverse_kl" in each]
    assert len(values) == 12
    assert sum(values[-3:]) < 0.7 * sum(values[:3])


def test_a_divergence_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    """A teacher whose logits are not numbers makes no step and says how many tokens it concerns."""
    teacher = tiny_teacher()
    with torch.no_grad():
        teacher.get_output_embeddings().weight[3] = float("nan")
    with worker_telling(spread) as worker:
        spy = DistillingSpy(config(tmp_path), worker, teacher=teacher)
        with pytest.raises(RewardContractError, match=r"reverse KL to the teacher is no finite number for \d+ of \d+"):
            spy.train()
    assert spy.state.global_step == 0


@pytest.mark.parametrize(
    ("fields", "settings", "text"),
    [
        ({"beta": 0.1}, {}, "beta=0.1: the teacher is what the policy is held to"),
        ({"entropy_coef": 0.1}, {}, "entropy_coef, use_adaptive_entropy: entropy is part"),
        ({}, {"alpha": -1.0}, r"alpha: expected a finite number of at least 0, got -1.0"),
        ({}, {"alpha": float("nan")}, "alpha: expected a finite number of at least 0, got nan"),
        ({}, {"alpha": True}, "alpha: expected a finite number of at least 0, got True"),
        ({}, {"divergence": "forward"}, "divergence: expected one of full, sampled, got 'forward'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    tmp_path: Path, fields: dict[str, Any], settings: dict[str, Any], text: str
) -> None:
    """Each is named with its reason."""
    with worker_telling(spread) as worker, pytest.raises(RewardConfigError, match=text):
        DistillingSpy(config(tmp_path, **fields), worker, **settings)


def test_a_teacher_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    """The number of logits and each token that differs are told; other pads are no difference."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["extra"])
    teacher = tiny_model(tokenizer)
    with (
        worker_telling(spread) as worker,
        pytest.raises(
            RewardConfigError,
            match=r"(?s)another vocabulary.*student has 47, the teacher 48.*'extra': id none of the student, 47 of the",
        ),
    ):
        DistillingSpy(config(tmp_path), worker, teacher=teacher, teacher_tokenizer=tokenizer)
    padded = tiny_tokenizer()
    padded.pad_token = "<unk>"  # noqa: S105  # no password
    with worker_telling(spread) as worker:
        DistillingSpy(config(tmp_path), worker, teacher_tokenizer=padded)


def test_the_student_is_no_teacher(tmp_path: Path) -> None:
    """A model can't be frozen and trained at once."""
    model = tiny_model(tiny_tokenizer())
    with worker_telling(spread) as worker, pytest.raises(RewardConfigError, match="it is the student itself"):
        DistillingSpyOf(model, config(tmp_path), worker)


class DistillingSpyOf(DistillingSpy):
    """With one model for both."""

    def __init__(self, model: Any, args: Any, worker: Any) -> None:
        from posttrain.training.opd import StageOPDTrainer

        StageOPDTrainer.__init__(self, model, args, worker=worker, teacher=model)
