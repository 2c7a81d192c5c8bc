"""The command line of the trainer: the options of the documents' walk-through, and what follows from them.

arguments = parse(["--arch", "resnet18", "--multiprocessing-distributed"])
arguments.devices, arguments.world_size          # device numbers of this node; processes of all nodes
"""

import argparse
import importlib
import os
import socket

import torch

from .networks import NETWORKS

KINDS = {"npu": "npu", "gpu": "cuda", "cpu": "cpu"}
BACKENDS = {"npu": "hccl", "gpu": "nccl", "cpu": "gloo"}
PORT = "29688"


class BadOption(Exception):
    """An option cannot be used; the text says why."""


def _parser():
    parser = argparse.ArgumentParser(description="Trains a network on ImageNet or on synthetic images.")
    add = parser.add_argument
    add("data", nargs="?", help="folder with the folders train and val; synthetic images without it")
    add("-a", "--arch", default="resnet18", help=f"network: {', '.join(NETWORKS)} (default: resnet18)")
    add("-j", "--workers", type=int, default=4, help="processes of this node that load images (default: 4)")
    add("--epochs", type=int, default=90, help="number of the last epoch (default: 90)")
    add("--start-epoch", type=int, default=0, help="number of the first epoch, counted from 0; --resume sets it")
    add("-b", "--batch-size", type=int, default=256, help="images per step of all processes of this node (default: 256)")
    add("--lr", "--learning-rate", type=float, default=0.1, help="divided by 10 every 30 epochs (default: 0.1)")
    add("--momentum", type=float, default=0.9, help="of SGD (default: 0.9)")
    add("--wd", "--weight-decay", dest="weight_decay", type=float, default=1e-4, help="of SGD (default: 1e-4)")
    add("-p", "--print-freq", type=int, default=10, help="steps between two lines of output (default: 10)")
    add("--resume", metavar="FILE", help="checkpoint to go on from; auto: checkpoint.pth.tar of this folder, if it exists")
    add("-e", "--evaluate", action="store_true", help="only evaluate on the validation images")
    add("--pretrained", action="store_true", help="start from weights that were trained on ImageNet; they are downloaded")
    add("--seed", type=int, help="of the weights and of the order of the images")
    add("--image-size", type=int, default=224, help="height and width of the network's input (default: 224)")
    add("--synthetic-images", type=int, help="training images if there is no data folder (default: four steps)")
    add("--device", choices=KINDS, default="npu", help="(default: npu)")
    add("--gpu", type=int, help="number of the device of a single process (default: 0)")
    add("--device-list", help="numbers of the devices of this node, such as 0,1,2,3 (default: all)")
    add("--multiprocessing-distributed", action="store_true", help="start one process per device of the list")
    add("--world-size", type=int, default=-1, help="number of nodes; of processes without --multiprocessing-distributed")
    add("--rank", type=int, default=-1, help="number of this node; of this process without --multiprocessing-distributed")
    add("--dist-backend", help="(default: hccl for npu, nccl for gpu, gloo for cpu)")
    add("--dist-url", help="meeting point of the processes, such as tcp://10.0.0.1:29688; not used with --addr")
    add("--addr", help=f"address of node 0; the port is MASTER_PORT of the environment, or {PORT}")
    add("--amp", action="store_true", help="mixed precision by apex")
    add("--opt-level", default="O2", help="of --amp: O0, O1, O2 or O3 (default: O2)")
    add("--loss-scale", type=float, default=1024.0, help="of --amp; -1: dynamic (default: 1024)")
    return parser


def parse(argv=None):
    """Options with the attributes devices, processes, launched, distributed, first_rank, batch (of a process) and checked values.
    Raises BadOption."""
    arguments = _parser().parse_args(argv)
    _check(arguments)
    arguments.launched = not arguments.multiprocessing_distributed and "LOCAL_RANK" in os.environ
    arguments.devices = _devices(arguments)
    arguments.dist_backend = arguments.dist_backend or BACKENDS[arguments.device]
    _ranks(arguments)
    arguments.batch = arguments.batch_size // arguments.processes
    arguments.workers = -(-arguments.workers // arguments.processes)
    if arguments.batch == 0:
        raise BadOption(
            f"--batch-size is {arguments.batch_size}, but {arguments.processes} processes share it: "
            f"give {arguments.processes} or more"
        )
    if arguments.distributed:
        _meeting_point(arguments)
    return arguments


def _check(arguments):
    if arguments.arch not in NETWORKS:
        raise BadOption(f"--arch: {arguments.arch} is not known; choose one of {', '.join(NETWORKS)}")
    if arguments.opt_level not in ("O0", "O1", "O2", "O3"):
        raise BadOption(f"--opt-level: {arguments.opt_level} is not known; choose O0, O1, O2 or O3")
    if not (arguments.loss_scale > 0 or arguments.loss_scale == -1) or arguments.loss_scale == float("inf"):
        raise BadOption(f"--loss-scale is {arguments.loss_scale}; give a positive number, or -1 for a dynamic scale")
    least_values = {"epochs": 1, "batch_size": 1, "print_freq": 1, "image_size": 1, "workers": 0, "start_epoch": 0}
    for name, least in least_values.items():
        if getattr(arguments, name) < least:
            raise BadOption(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; it must be at least {least}")
    if arguments.synthetic_images is not None and arguments.synthetic_images < 1:
        raise BadOption(f"--synthetic-images is {arguments.synthetic_images}; it must be at least 1")
    if arguments.gpu is not None and arguments.multiprocessing_distributed:
        raise BadOption("--gpu chooses the device of one process; with --multiprocessing-distributed use --device-list")


def accelerator(device):
    """The module torch.npu or torch.cuda."""
    if device == "npu":
        try:
            importlib.import_module("torch_npu")
        except ImportError as error:
            raise BadOption(f"--device npu: torch_npu cannot be imported: {error}") from None
    return getattr(torch, KINDS[device])


def _available(device):
    """The number of devices; None if there is no limit."""
    return None if device == "cpu" else accelerator(device).device_count()


def _devices(arguments):
    available = _available(arguments.device)
    if available == 0:
        raise BadOption(f"--device {arguments.device}: this machine has none")
    if arguments.device_list is not None:
        try:
            devices = sorted(int(number) for number in arguments.device_list.split(","))
        except ValueError:
            raise BadOption(
                f"--device-list is {arguments.device_list!r}; give numbers with commas between them: 0,1,2,3"
            ) from None
        option = "--device-list"
    elif arguments.gpu is not None:
        devices, option = [arguments.gpu], "--gpu"
    else:
        devices, option = list(range(available or 1)), "--device"
    if len(set(devices)) != len(devices):
        raise BadOption(f"{option} names a device twice: {arguments.device_list}")
    for number in devices:
        if number < 0 or (available is not None and number >= available):
            raise BadOption(
                f"{option} names device {number}, but this machine has {available} devices of type {arguments.device}: "
                f"0 to {available - 1}"
            )
    return devices


def _ranks(arguments):
    """Sets processes (of this node), world_size (processes of all nodes), first_rank and distributed."""
    nodes = max(1, arguments.world_size)
    number = max(0, arguments.rank)
    if number >= nodes and not arguments.launched:
        raise BadOption(f"--rank is {arguments.rank}, but --world-size is {arguments.world_size}; ranks count from 0")
    if arguments.launched:
        arguments.processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        arguments.world_size, arguments.first_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        local = int(os.environ["LOCAL_RANK"])
        if local >= len(arguments.devices):
            raise BadOption(f"this is process {local} of the node, but there are {len(arguments.devices)} devices: start as many")
        arguments.devices = [arguments.devices[local]]
    elif arguments.multiprocessing_distributed:
        arguments.processes = len(arguments.devices)
        arguments.world_size, arguments.first_rank = nodes * arguments.processes, number * arguments.processes
    else:
        arguments.processes, arguments.world_size, arguments.first_rank = 1, nodes, number
        if arguments.gpu is not None and arguments.gpu not in arguments.devices:
            raise BadOption(f"--gpu is {arguments.gpu}, but --device-list has {arguments.device_list}")
        arguments.devices = [arguments.devices[0] if arguments.gpu is None else arguments.gpu]
    arguments.distributed = arguments.launched or arguments.multiprocessing_distributed or arguments.world_size > 1


def _meeting_point(arguments):
    """Sets dist_url, or MASTER_ADDR and MASTER_PORT of the environment."""
    if arguments.launched:
        arguments.dist_url = "env://"
    elif arguments.addr is not None:
        os.environ["MASTER_ADDR"] = arguments.addr
        os.environ.setdefault("MASTER_PORT", PORT)
        arguments.dist_url = "env://"
    elif arguments.dist_url is None:
        if arguments.world_size > arguments.processes:
            raise BadOption("several nodes need the address of node 0: give --addr or --dist-url")
        arguments.dist_url = f"tcp://127.0.0.1:{_free_port()}"


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
