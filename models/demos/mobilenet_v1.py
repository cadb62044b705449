"""MobileNet v1 (Howard et al. 2017) on a simulated card, with random weights; small sizes run in less than a minute."""

from __future__ import annotations

from opscope.models.demos.card import image, on_a_card, seeded, sizes

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Channels and stride of each block."""


def main() -> None:
    """Builds the model, and runs it."""
    limits = {"size": range(32, 513), "width": range(32, 1025, 32), "blocks": range(1, len(BLOCKS) + 1)}
    asked = sizes(__doc__, limits, size=224, width=1024, blocks=len(BLOCKS), classes=1000)
    from torch import nn

    def step(before: int, after: int, kernel: int, stride: int, groups: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(after), nn.ReLU()]

    def channels(number: int) -> int:
        return number * asked.width // 1024

    depth = channels(32)
    layers = step(3, depth, 3, 2)
    for number, stride in BLOCKS[: asked.blocks]:
        layers += step(depth, depth, 3, stride, groups=depth)  # depthwise
        layers += step(depth, channels(number), 1, 1)  # pointwise
        depth = channels(number)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(depth, asked.classes)]
    on_a_card("mobilenet_v1", seeded(nn.Sequential(*layers)), [image(asked.size)], asked)


if __name__ == "__main__":
    main()
