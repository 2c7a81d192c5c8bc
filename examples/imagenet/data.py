"""The images of the trainer: synthetic ones, or a folder in the layout of ImageNet.

    SyntheticImages(count=64, size=32, seed=0)
    ImageFolder("/data/imagenet/train", size=224, augment=True)

An item is a pair of a normalised float32 image of shape (3, size, size) and the number of its class.
"""

import math
from pathlib import Path

import torch
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
EXTENSIONS = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SYNTHETIC_CLASSES = 10


class BadData(Exception):
    """The data cannot be used; the text says why."""


class SyntheticImages(Dataset):
    """Noise around a colour and a gradient that depend on the class. Item i is the same in every process and run."""

    classes = SYNTHETIC_CLASSES

    def __init__(self, count, size, seed=0):
        self.count, self.size, self.seed = count, size, seed
        generator = torch.Generator().manual_seed(0)
        self.colours = torch.randn(SYNTHETIC_CLASSES, 3, 1, 1, generator=generator)
        self.slopes = torch.randn(SYNTHETIC_CLASSES, 3, 1, 1, generator=generator)
        self.ramp = torch.linspace(-1, 1, size)

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        if not 0 <= number < self.count:
            raise IndexError(number)
        label = number % SYNTHETIC_CLASSES
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        noise = torch.randn(3, self.size, self.size, generator=generator)
        return noise.mul_(0.5).add_(self.colours[label]).add_(self.slopes[label] * self.ramp), label


class ImageFolder(Dataset):
    """Images of folders that are named after their classes; the classes are numbered in the order of the names."""

    def __init__(self, folder, size, augment):
        self.folder, self.size, self.augment = Path(folder), size, augment
        if not self.folder.is_dir():
            raise BadData(f"there is no folder {self.folder}; the data path needs the folders train and val: see README.md")
        names = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        self.classes = len(names)
        self.items = [
            (path, label)
            for label, name in enumerate(names)
            for path in sorted((self.folder / name).rglob("*"))
            if path.suffix.lower() in EXTENSIONS
        ]
        if not self.items:
            raise BadData(
                f"{self.folder} has no images; it needs one folder per class with files of type {', '.join(sorted(EXTENSIONS))}"
            )
        _pillow()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        path, label = self.items[number]
        try:
            with _pillow().open(path) as file:
                image = file.convert("RGB")
        except OSError as error:
            raise BadData(f"{path} cannot be read as an image: {error}") from None
        image = _random_crop(image, self.size) if self.augment else _middle(image, self.size)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(self.size, self.size, 3)
        tensor = pixels.permute(2, 0, 1).float().div_(255).sub_(MEAN).div_(DEVIATION)
        if self.augment and torch.rand(()) < 0.5:
            tensor = tensor.flip(2)
        return tensor.contiguous(), label


def _pillow():
    try:
        from PIL import Image
    except ImportError:
        raise BadData(
            "files of images need Pillow: pip install pillow, or leave the data path out for synthetic images"
        ) from None
    return Image


def _uniform(low, high):
    return low + (high - low) * torch.rand(()).item()


def _random_crop(image, size):
    """A random part of 8 % to 100 % of the area and of an aspect ratio from 3/4 to 4/3, resized."""
    for _ in range(10):
        area = image.width * image.height * _uniform(0.08, 1.0)
        ratio = math.exp(_uniform(math.log(3 / 4), math.log(4 / 3)))
        width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < width <= image.width and 0 < height <= image.height:
            left, top = round(_uniform(0, image.width - width)), round(_uniform(0, image.height - height))
            return _resized(image, size, size, (left, top, left + width, top + height))
    return _middle(image, size)


def _middle(image, size):
    """The central square after the shorter side is resized to 256 pixels per 224 of the result."""
    shorter = round(size * 256 / 224)
    scale = shorter / min(image.width, image.height)
    image = _resized(image, max(size, round(image.width * scale)), max(size, round(image.height * scale)))
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return image.crop((left, top, left + size, top + size))


def _resized(image, width, height, box=None):
    return image.resize((width, height), _pillow().Resampling.BILINEAR, box)
