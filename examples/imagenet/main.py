"""Trains a network on ImageNet or on synthetic images, on one device or on several with one process each.

    python examples/imagenet/main.py --arch resnet18 --image-size 32 --batch-size 32 --epochs 1
    python examples/imagenet/main.py --arch resnet50 --multiprocessing-distributed --amp /data/imagenet

README.md of this folder shows the commands of the documents and the layout of the data. Writes checkpoint.pth.tar after each
epoch, and model_best.pth.tar if it is the best one.
"""

import importlib.util
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # examples.shufflenet has networks, too

import torch
from torch import distributed as dist
from torch import multiprocessing

from examples.imagenet.data import BadData, ImageFolder
from examples.imagenet.options import KINDS, BadOption, accelerator, parse
from examples.imagenet.training import CHECKPOINT, BadCheckpoint, Training, read_checkpoint


def work(local, arguments):
    """One process: trains on device number `local` of the list."""
    if arguments.processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // arguments.processes))
    rank, device = arguments.first_rank + local, torch.device("cpu")
    if arguments.device != "cpu":
        accelerator(arguments.device).set_device(arguments.devices[local])
        device = torch.device(KINDS[arguments.device], arguments.devices[local])
    if arguments.distributed:
        dist.init_process_group(
            arguments.dist_backend, init_method=arguments.dist_url, world_size=arguments.world_size, rank=rank
        )
    try:
        Training(arguments, rank, int(os.environ["LOCAL_RANK"]) if arguments.launched else local, device).run()
    finally:
        if arguments.distributed:
            dist.destroy_process_group()


def check(arguments):
    """Finds mistakes before processes start."""
    if arguments.amp and importlib.util.find_spec("apex") is None:
        raise BadOption("--amp needs apex, which is not installed: scripts/build makes its wheel in build/dist")
    if arguments.data is not None:
        for part in ("val",) if arguments.evaluate else ("train", "val"):
            ImageFolder(Path(arguments.data, part), arguments.image_size, augment=False)
    if arguments.resume:
        read_checkpoint(arguments.resume, arguments.arch)


def main(argv=None):
    try:
        arguments = parse(argv)
        if arguments.resume == "auto":
            arguments.resume = CHECKPOINT if Path(CHECKPOINT).is_file() else None
        check(arguments)
        if not arguments.multiprocessing_distributed:
            work(0, arguments)
            return
    except (BadOption, BadData, BadCheckpoint) as error:
        sys.exit(f"main.py: error: {error}")
    multiprocessing.set_forkserver_preload(["torch", "torch_npu"] if arguments.device == "npu" else ["torch"])
    multiprocessing.start_processes(work, (arguments,), arguments.processes, start_method="forkserver")


if __name__ == "__main__":
    main()
