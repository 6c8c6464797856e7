# SPDX-License-Identifier: Apache-2.0
"""The model that a config names: the tiny one, or a real checkpoint in the layout of diffusers."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from posttrain.errors import RewardConfigError
from posttrain.runs.config import RLConfig
from posttrain.training.nft.models.bundle import DiffusionModel
from posttrain.training.nft.models.decoder import WanDecoder
from posttrain.training.nft.models.text import TextEncoder, hashed_text, umt5_text
from posttrain.training.nft.models.tiny import TEXT_DIM, tiny_autoencoder, tiny_transformer

if TYPE_CHECKING:
    import torch

__all__ = ["load_model"]

_ADAPTED: Final = ["to_q", "to_k", "to_v", "to_out.0", "ffn.net.0.proj", "ffn.net.2"]
"""The linear layers of a Wan block."""


def load_model(config: RLConfig, device: torch.device) -> DiffusionModel:
    """Load or make the model of ``rl.policy``; the same on every rank.

    Raises:
        RewardConfigError: a package is missing, or there is no such checkpoint.
    """
    _require("diffusers")
    _require("transformers")
    is_tiny = config.policy.model == "tiny"
    transformer, autoencoder, encode = _tiny(config) if is_tiny else _checkpoint(config, device)
    if config.policy.lora_rank is not None:
        _add_adapters(transformer, config)
    transformer.to(device).eval()
    autoencoder.to(device).eval().requires_grad_(requires_grad=False)
    return DiffusionModel(
        transformer=transformer,
        decoder=WanDecoder(autoencoder, normalised=not is_tiny),
        encode=encode,
        device=device,
        latent_shape=_latent_shape(config, autoencoder),
        bfloat16=config.policy.dtype == "bfloat16",
    )


def _tiny(config: RLConfig) -> tuple[Any, Any, TextEncoder]:
    return tiny_transformer(config.policy.seed), tiny_autoencoder(), lambda prompt: hashed_text(prompt, TEXT_DIM)


def _checkpoint(config: RLConfig, device: torch.device) -> tuple[Any, Any, TextEncoder]:
    import torch

    # Neither is typed as far as this goes.
    diffusers, transformers = import_module("diffusers"), import_module("transformers")
    name, revision = str(config.policy.model), config.policy.revision
    # What is trained stays in float32; a base under adapters, and what only reads prompts, need not.
    small = torch.bfloat16 if config.policy.dtype == "bfloat16" else torch.float32
    base = torch.float32 if config.policy.lora_rank is None else small
    try:
        transformer = diffusers.WanTransformer3DModel.from_pretrained(
            name, subfolder="transformer", revision=revision, torch_dtype=base
        )
        autoencoder = diffusers.AutoencoderKLWan.from_pretrained(
            name, subfolder="vae", revision=revision, torch_dtype=torch.float32
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, subfolder="tokenizer", revision=revision)
        encoder = transformers.UMT5EncoderModel.from_pretrained(
            name, subfolder="text_encoder", revision=revision, dtype=small
        )
    except (OSError, ValueError) as error:
        raise RewardConfigError(
            f"rl.policy.model: {name!r} can't be loaded as a Wan checkpoint in the layout of diffusers (transformer, "
            f"vae, tokenizer, text_encoder): {error}"
        ) from error
    return transformer, autoencoder, umt5_text(tokenizer, encoder.to(device).eval())


def _add_adapters(transformer: Any, config: RLConfig) -> None:
    import torch

    _require("peft")
    from peft import LoraConfig

    rank = config.policy.lora_rank or 1
    alpha = 2 * rank if config.policy.lora_alpha is None else config.policy.lora_alpha
    transformer.requires_grad_(requires_grad=False)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(config.policy.seed)
        transformer.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=_ADAPTED))
    for parameter in transformer.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def _latent_shape(config: RLConfig, autoencoder: Any) -> tuple[int, int, int, int]:
    """Wan's latents: one frame for the first of the video and for each four that follow, a pixel for 8 by 8."""
    nft = config.nft
    space, time = 2 ** len(autoencoder.config.temperal_downsample), 2 ** sum(autoencoder.config.temperal_downsample)
    frames = 1 + (nft.frame_count - 1) // time
    return autoencoder.config.z_dim, frames, nft.height // space, nft.width // space


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise RewardConfigError(f'posttrain nft needs {package}: pip install "posttrain[media,train]"')
