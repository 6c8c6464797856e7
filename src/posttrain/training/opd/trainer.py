# SPDX-License-Identifier: Apache-2.0
"""`StageOPDTrainer`: the loss of on-policy distillation on the trainer of the reward stage."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.integrations.trl.trainer import StageGRPOTrainer
from posttrain.rewards.metrics.real import as_real
from posttrain.training.opd.vocabulary import check_same_vocabulary

# Only after the stage's trainer, which says what to install.
import torch  # isort: skip
from trl.models.utils import prepare_deepspeed, prepare_fsdp  # isort: skip
from trl.trainer.utils import add_fused_lm_head  # isort: skip

from posttrain.training.opd.divergence import reverse_kl, sampled_loss, token_log_probs  # isort: skip

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl.trainer.grpo_config import GRPOConfig

__all__ = ["REVERSE_KL", "Divergence", "StageOPDTrainer"]

Divergence: TypeAlias = Literal["full", "sampled"]
"""Over the whole vocabulary, or of the sampled token alone."""

REVERSE_KL: Final = "opd/reverse_kl"
"""Metric under ``train/``: mean reverse KL of a token in the loss, in nats; of ``sampled`` an estimate, which may be
below 0."""


class _Seen(NamedTuple):
    """What the student's one forward pass gives, each of shape [rows, tokens]."""

    log_probs: torch.Tensor
    entropies: torch.Tensor
    loss: torch.Tensor
    """Of a token, with gradient; 0 where the mask is."""
    divergence: torch.Tensor
    """Of a token, for the metric."""


class StageOPDTrainer(StageGRPOTrainer):
    """On-policy distillation: the student samples, and a frozen teacher judges each token of it.

    For the tokens t of all completions that are in the loss, N of them in the batch of a step over all ranks, it
    minimises

        L = 1/N sum_t D_t  +  alpha L_policy

        D_t = KL(p(. | s_t) || q(. | s_t)),  p the student, q the teacher, both at the sampling temperature

    where s_t is what stands before the token and is taken as it was sampled: no gradient goes through the sampling.
    L_policy is the loss that `StageGRPOTrainer` would have by itself, with the advantages of the stage. Both terms are
    over the same tokens: those of dropped groups, and with `mask_truncated` those of completions that were cut, are in
    neither, nor in N. With ``alpha=0`` the stage scores, reports and validates, and the gradient is that of D alone.

    ``divergence="full"`` sums D over the whole vocabulary. ``"sampled"`` uses log p - log q of the sampled token alone
    (see `posttrain.training.opd.divergence`): the same gradient in expectation, noisier, without any tensor of the size
    of the vocabulary; samples of an older policy, or of vLLM, are weighted as the trainer weights them.

    Args:
        model: the student, see `StageGRPOTrainer`.
        args: TRL's config. `beta`, the entropy bonus and a router's auxiliary loss are refused: the first two pull
            towards something else than the teacher, and all three would be scaled by `alpha`.
        teacher: a causal language model of the same vocabulary. It is frozen, kept in evaluation mode and in its dtype.
        teacher_tokenizer: its tokenizer, held against the student's; None: the student's own.
        alpha: weight of the policy's loss, finite and at least 0.
        divergence: see above.
        **stage: everything that `StageGRPOTrainer` takes.

    Raises:
        RewardConfigError: naming every setting that does not fit, or what differs between the vocabularies.
    """

    def __init__(
        self,
        model: str | PreTrainedModel,
        args: GRPOConfig,
        *,
        teacher: PreTrainedModel,
        teacher_tokenizer: PreTrainedTokenizerBase | None = None,
        alpha: float = 0.0,
        divergence: Divergence = "full",
        **stage: Any,
    ) -> None:
        if faults := _setting_faults(args, alpha, divergence):
            raise RewardConfigError(f"settings that do not fit distillation:\n{listing(faults)}")
        if teacher is model:
            raise RewardConfigError("teacher: it is the student itself; pass a model of its own, which stays frozen")
        super().__init__(model, args, **stage)
        if self.aux_loss_enabled:
            raise RewardConfigError(
                "the student has a router with an auxiliary loss, which distillation has no place for: set "
                "router_aux_loss_coef=0 in its config"
            )
        student: Any = self.model
        check_same_vocabulary(
            self._tokenizer,
            teacher_tokenizer or self._tokenizer,
            student_size=student.config.get_text_config().vocab_size,
            teacher_size=teacher.config.get_text_config().vocab_size,
        )
        self.alpha = float(alpha)
        self.divergence: Divergence = divergence
        self.teacher = self._prepared(teacher)
        self._seen: _Seen | None = None

    def _prepared(self, teacher: Any) -> Any:
        """The teacher, frozen, on this rank's device, sharded as the student is."""
        teacher.requires_grad_(requires_grad=False).eval()
        if self.divergence == "sampled":
            args: Any = self.args
            add_fused_lm_head(teacher, temperature=self.temperature, cast_lm_head_to_fp32=args.cast_lm_head_to_fp32)
        if self.is_deepspeed_enabled:
            return prepare_deepspeed(teacher, self.accelerator)
        if self.is_fsdp_enabled:
            return prepare_fsdp(teacher, self.accelerator)
        return self.accelerator.prepare_model(teacher, evaluation_mode=True)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        self._seen = seen = self._see(model, inputs, mask.bool())
        try:
            # Without a part in the loss it only fills TRL's metrics.
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.alpha > 0):
                policy_loss: Any = super()._compute_loss
                policy: torch.Tensor = policy_loss(model, inputs)
        finally:
            self._seen = None
        sums = torch.stack([(seen.divergence.detach() * mask).sum().float(), mask.sum().float()])
        totals = self.accelerator.reduce(sums, reduction="sum")
        if totals[1] > 0:
            # Without a token there is no mean, and 0 would read as full agreement.
            mode = self._mode()
            name = f"train/{REVERSE_KL}" if mode == "train" else REVERSE_KL
            self._metrics[mode][name].append((totals[0] / totals[1]).item())
        loss = seen.loss.sum() / self._tokens_of_a_step(inputs)
        return loss + self.alpha * policy if self.alpha > 0 else loss

    def _tokens_of_a_step(self, inputs: dict[str, Any]) -> torch.Tensor:
        """This rank's share of the tokens in the loss of one optimizer step: gradients are averaged over ranks."""
        args: Any = self.args
        count: torch.Tensor = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        if self._mode() == "train":
            count = count * self.current_gradient_accumulation_steps / args.steps_per_generation
        return count

    def _get_per_token_logps_and_entropies(self, model: Any, *arguments: Any, **options: Any) -> Any:
        if self._seen is not None:
            # The trainer's own loss, over the pass that has been made.
            return self._seen.log_probs, self._seen.entropies, None
        return super()._get_per_token_logps_and_entropies(model, *arguments, **options)

    def _see(self, model: Any, inputs: dict[str, Any], mask: torch.Tensor) -> _Seen:
        """One pass of both models over the batch.

        Raises:
            RewardError: a divergence in the loss is no finite number, on any rank: the same on each.
        """
        if inputs.get("pixel_values") is not None:
            raise RewardConfigError("the prompts have images: distillation is for text models")
        tokens = {
            "input_ids": torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            "attention_mask": torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
        }
        seen = self._over_vocabulary if self.divergence == "full" else self._over_samples
        made = seen(model, tokens, inputs, mask)
        self._check_finite(made.divergence, mask)
        return made

    def _over_vocabulary(
        self, model: Any, tokens: dict[str, torch.Tensor], inputs: dict[str, Any], mask: torch.Tensor
    ) -> _Seen:
        ids = inputs["completion_ids"]
        student = self._logits(model, tokens, ids.size(1))[mask]
        with torch.no_grad():
            teacher = self._logits(self.teacher.eval(), tokens, ids.size(1))[mask]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.alpha > 0):
            log_probs = token_log_probs(student, ids[mask], self.temperature)
        divergence, entropy = reverse_kl(student, teacher, self.temperature)
        # Where the mask is 0, the trainer's ratio to the old policy has to stay 1: it could overflow otherwise.
        old = inputs.get("old_per_token_logps")
        elsewhere = torch.zeros_like(mask, dtype=log_probs.dtype) if old is None else old.to(log_probs.dtype)
        divergence, entropy = (each.new_zeros(mask.shape).masked_scatter(mask, each) for each in (divergence, entropy))
        return _Seen(elsewhere.masked_scatter(mask, log_probs), entropy, divergence, divergence)

    def summed_divergence(self, samples: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[float, int]:
        """Sum of the reverse KL over the whole vocabulary of each sampled token, in nats, and the number of tokens.

        Args:
            samples: ids of the prompt's tokens, and of the completion's.

        Raises:
            RewardError: the sum is no finite number, on any rank: the same on each.
        """
        pad = self._tokenizer.pad_token_id
        longest = max((len(prompt) for prompt, _ in samples), default=0)
        count = max((len(completion) for _, completion in samples), default=0)
        rows = [
            [pad] * (longest - len(prompt)) + [*prompt, *completion] + [pad] * (count - len(completion))
            for prompt, completion in samples
        ]
        there = [
            [0] * (longest - len(prompt)) + [1] * (len(prompt) + len(completion)) + [0] * (count - len(completion))
            for prompt, completion in samples
        ]
        device = self.accelerator.device
        tokens = {
            "input_ids": torch.tensor(rows, device=device),
            "attention_mask": torch.tensor(there, device=device),
        }
        mask = tokens["attention_mask"][:, longest:].bool()
        with torch.no_grad():
            student, teacher = (self._logits(model, tokens, count)[mask] for model in (self.model, self.teacher.eval()))
            divergence = reverse_kl(student, teacher, self.temperature).reverse_kl
        self._check_finite(divergence, torch.ones_like(divergence, dtype=torch.bool))
        return float(divergence.double().sum()), int(mask.sum())

    def _logits(self, model: Any, tokens: dict[str, torch.Tensor], count: int) -> torch.Tensor:
        """Logits of the last `count` tokens: those at the positions before them."""
        with self.accelerator.autocast():
            made: torch.Tensor = model(**tokens, logits_to_keep=count + 1, use_cache=False).logits
        return made[:, :-1][:, -count:]

    def _over_samples(
        self, model: Any, tokens: dict[str, torch.Tensor], inputs: dict[str, Any], mask: torch.Tensor
    ) -> _Seen:
        count = inputs["completion_ids"].size(1)
        log_p, entropies, _ = super()._get_per_token_logps_and_entropies(
            model, *tokens.values(), count, compute_entropy=True
        )
        with torch.no_grad():
            log_q, _, _ = super()._get_per_token_logps_and_entropies(self.teacher.eval(), *tokens.values(), count)
        loss = sampled_loss(log_p, log_q, inputs.get("old_per_token_logps"))
        if (weight := inputs.get("importance_sampling_ratio")) is not None:
            loss = loss * weight
        return _Seen(log_p, entropies, torch.where(mask, loss, 0.0), log_p - log_q)

    def _check_finite(self, divergence: torch.Tensor, mask: torch.Tensor) -> None:
        bad = int((~torch.isfinite(divergence) & mask).sum())
        if bad:
            error = RewardContractError(
                f"the reverse KL to the teacher is no finite number for {bad} of {int(mask.sum())} tokens: the "
                "logits of one of the models are not finite, or the teacher gives a token a probability of exactly 0; "
                "use a teacher of the same family, in the dtype that it was trained in"
            )
            self.exchange.fail(REVERSE_KL, error)
        if self.exchange.world_size > 1:
            # The others would wait in the backward pass.
            self.exchange.swap(REVERSE_KL, None)


def _setting_faults(args: Any, alpha: object, divergence: object) -> list[str]:
    number = as_real(alpha)
    faults = []
    if number is None or not isfinite(number) or number < 0:
        faults.append(f"alpha: expected a finite number of at least 0, got {describe(alpha)}")
    if divergence not in get_args(Divergence):
        faults.append(f"divergence: expected one of {', '.join(get_args(Divergence))}, got {describe(divergence)}")
    if getattr(args, "beta", 0.0):
        faults.append(f"beta={args.beta}: the teacher is what the policy is held to; leave it out")
    if getattr(args, "entropy_coef", 0.0) or getattr(args, "use_adaptive_entropy", False):
        faults.append("entropy_coef, use_adaptive_entropy: entropy is part of the divergence; leave them out")
    return faults
