# SPDX-License-Identifier: Apache-2.0
"""A diffusion model in the style of Wan, made in the process: small enough that a step takes a fraction of a second.

The transformer is random and is what a run trains. The decoder is not random: its weights are set so that it paints
what a latent says. A random one hardly reacts to its latent, and no reward of its pixels could be learned.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

__all__ = ["TEXT_DIM", "tiny_autoencoder", "tiny_transformer"]

TEXT_DIM: Final = 32
"""Width of the tiny model's text embedding."""

_CHANNELS: Final = 16
_PAINT: Final = 3
"""Latent channels that the decoder paints with: red, green, blue."""
_GREY: Final = 2.0
"""Constant fourth component: the larger, the further a latent may go before its colour saturates."""
_CONTRAST: Final = 0.7


def tiny_transformer(seed: int) -> Any:
    """A `WanTransformer3DModel` of two layers, about 23,000 random weights; the same for the same seed."""
    import torch

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return import_module("diffusers").WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=_CHANNELS,
            out_channels=_CHANNELS,
            text_dim=TEXT_DIM,
            freq_dim=32,
            ffn_dim=32,
            num_layers=2,
            rope_max_seq_len=64,
            cross_attn_norm=True,
            qk_norm="rms_norm_across_heads",
        )


def tiny_autoencoder() -> Any:
    """An `AutoencoderKLWan` whose decoder paints the first three latent channels as red, green and blue.

    Every pixel of a patch of 8 by 8, in all frames of its latent frame, gets for each colour c
    ``0.7 * sqrt(8) * z_c / sqrt(2 * (z_r^2 + z_g^2 + z_b^2) + 4)``, clamped to [-1, 1] by `AutoencoderKLWan` itself: 0
    is grey, and a colour grows with its channel.
    """
    import torch

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = import_module("diffusers").AutoencoderKLWan(
            base_dim=8,
            z_dim=_CHANNELS,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
        )
    with torch.no_grad():
        _paint(model)
    return model.eval().requires_grad_(requires_grad=False)


def _paint(model: Any) -> None:
    """Make every layer of the decoder hand (red, green, blue, constant) on, and the last ones paint them."""
    model.post_quant_conv.weight.zero_()
    model.post_quant_conv.bias.zero_()
    for channel in range(_CHANNELS):
        model.post_quant_conv.weight[channel, channel] = 1.0
    decoder: Any = model.decoder
    _hand_on(decoder.conv_in, _PAINT)
    decoder.conv_in.bias[_PAINT] = _GREY
    blocks = [*decoder.mid_block.resnets, *(resnet for block in decoder.up_blocks for resnet in block.resnets)]
    for resnet in blocks:
        # What a residual block adds is nothing.
        resnet.conv2.weight.zero_()
        resnet.conv2.bias.zero_()
        if hasattr(resnet.conv_shortcut, "weight"):
            _hand_on(resnet.conv_shortcut, _PAINT + 1)
    for attention in decoder.mid_block.attentions:
        attention.proj.weight.zero_()
        attention.proj.bias.zero_()
    for block in decoder.up_blocks:
        for sampler in block.upsamplers or ():
            _hand_on(sampler.resample[1], _PAINT + 1)
            if hasattr(sampler, "time_conv"):
                _twice(sampler.time_conv)
    # Norm and SiLU come last: a pair (x, -x) survives them, since silu(x) - silu(-x) = x.
    shortcut, out = decoder.up_blocks[-1].resnets[0].conv_shortcut, decoder.conv_out
    out.weight.zero_()
    out.bias.zero_()
    for colour in range(_PAINT):
        shortcut.weight[colour + _PAINT + 1, colour] = -1.0
        out.weight[colour, colour, -1, 1, 1] = _CONTRAST
        out.weight[colour, colour + _PAINT + 1, -1, 1, 1] = -_CONTRAST


def _hand_on(convolution: torch.nn.Module, channels: int) -> None:
    """The identity on the first channels, nothing else: the centre in space, the present in time."""
    weight: Any = convolution.weight
    weight.zero_()
    convolution.bias.zero_()  # type: ignore[operator]  # a convolution's bias is a tensor here
    centre = (-1, *(size // 2 for size in weight.shape[-2:])) if weight.dim() == 5 else (1, 1)
    for channel in range(channels):
        weight[(channel, channel, *centre)] = 1.0


def _twice(convolution: torch.nn.Module) -> None:
    """Both of the two frames that a frame becomes are that frame."""
    weight: Any = convolution.weight
    weight.zero_()
    convolution.bias.zero_()  # type: ignore[operator]  # a convolution's bias is a tensor here
    half = weight.shape[0] // 2
    for channel in range(_PAINT + 1):
        weight[channel, channel, -1] = 1.0
        weight[half + channel, channel, -1] = 1.0
