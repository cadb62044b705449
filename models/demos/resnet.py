"""ResNet-50 (He et al. 2015) on a simulated card, with random weights; small sizes run in less than a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.demos.card import image, on_a_card, seeded, sizes

if TYPE_CHECKING:
    import torch

DEPTHS = (3, 4, 6, 3)
"""Blocks of each stage."""


def main() -> None:
    """Builds the model, and runs it."""
    limits = {"size": range(32, 513), "stages": range(1, len(DEPTHS) + 1), "depth": range(1, max(DEPTHS) + 1)}
    asked = sizes(__doc__, limits, size=224, width=64, stages=len(DEPTHS), depth=max(DEPTHS), classes=1000)
    from torch import nn

    def convolution(before: int, after: int, kernel: int, stride: int = 1) -> nn.Sequential:
        taps = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(taps, nn.BatchNorm2d(after))

    class Bottleneck(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.reduce = convolution(before, width, 1)
            self.middle = convolution(width, width, 3, stride)
            self.expand = convolution(width, 4 * width, 1)
            same = stride == 1 and before == 4 * width
            self.shortcut = nn.Identity() if same else convolution(before, 4 * width, 1, stride)
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.expand(self.relu(self.middle(self.relu(self.reduce(x)))))
            return self.relu(inner + self.shortcut(x))

    inputs = asked.width
    layers: list[nn.Module] = [convolution(3, inputs, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, depth in enumerate(DEPTHS[: asked.stages]):
        width = asked.width << stage
        for number in range(min(depth, asked.depth)):
            layers.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, asked.classes)]
    on_a_card("resnet", seeded(nn.Sequential(*layers)), [image(asked.size)], asked)


if __name__ == "__main__":
    main()
