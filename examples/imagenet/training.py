"""One process of the training: network, optimizer, images, epochs and checkpoints.

Training(arguments, rank=0, local=0, device=torch.device("npu", 0)).run()
"""

import contextlib
import os
import pickle
import shutil
import time
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from . import networks
from .data import BadData, ImageFolder, SyntheticImages

CHECKPOINT, BEST = "checkpoint.pth.tar", "model_best.pth.tar"
TOP = (1, 5)


class BadCheckpoint(Exception):
    """A checkpoint cannot be resumed; the text says why."""


def read_checkpoint(path, arch, device="cpu"):
    """The contents of a checkpoint of the network `arch`. Raises BadCheckpoint."""
    if not Path(path).is_file():
        raise BadCheckpoint(f"--resume: there is no file {path}")
    try:
        checkpoint = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise BadCheckpoint(f"--resume: {path} is no checkpoint of this trainer: {str(error).splitlines()[0]}") from None
    missing = {"epoch", "arch", "state_dict", "best_acc1", "optimizer"} - set(checkpoint if isinstance(checkpoint, dict) else ())
    if missing:
        raise BadCheckpoint(f"--resume: {path} is no checkpoint of this trainer: it has no {', '.join(sorted(missing))}")
    if checkpoint["arch"].removesuffix("_tuned") != arch.removesuffix("_tuned"):
        raise BadCheckpoint(f"--resume: {path} holds a {checkpoint['arch']}, but --arch is {arch}")
    return checkpoint


class Totals:
    """Sums over images on the device: loss, and hits among the first 1 and 5 guesses. Reading them waits for the device."""

    def __init__(self, device):
        self.sums = torch.zeros(len(TOP) + 2, device=device)

    @torch.no_grad()
    def add(self, loss, output, target):
        """Returns the sums of this batch."""
        hits = output.topk(max(TOP), 1).indices.eq(target.unsqueeze(1))
        count = loss.new_full((), len(target), dtype=torch.float32)
        batch = torch.stack([loss.detach().float() * count, *(hits[:, :k].sum().float() for k in TOP), count])
        self.sums += batch
        return batch


def averages(sums):
    """Loss, and percentages of hits."""
    loss, *hits, count = sums.tolist()
    return loss / max(count, 1), *(100 * number / max(count, 1) for number in hits)


class Training:
    """Training of one process on one device; `rank` counts over all nodes, `local` over those of this node."""

    def __init__(self, arguments, rank, local, device):
        self.arguments, self.rank, self.local, self.device = arguments, rank, local, device
        self.best, self.epoch = 0.0, arguments.start_epoch
        self.amp = _apex_amp() if arguments.amp else None
        if arguments.seed is not None:
            torch.manual_seed(arguments.seed)
        self.net = networks.create(arguments.arch)
        if arguments.pretrained:
            networks.load_pretrained(self.net, arguments.arch)
        self.net.to(device)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), arguments.lr, momentum=arguments.momentum, weight_decay=arguments.weight_decay
        )
        if self.amp:
            scale = "dynamic" if arguments.loss_scale == -1 else arguments.loss_scale
            self.net, self.optimizer = self.amp.initialize(
                self.net, self.optimizer, opt_level=arguments.opt_level, loss_scale=scale
            )
        if arguments.resume:
            self._resume(arguments.resume)
        self.model = self.net
        if arguments.distributed:
            self.model = DistributedDataParallel(self.net, device_ids=None if device.type == "cpu" else [device.index])
        self.criterion = nn.CrossEntropyLoss().to(device)

    def run(self):
        arguments = self.arguments
        images, sampler = (None, None) if arguments.evaluate else self._training_images()
        validation = self._validation_images()
        if arguments.evaluate:
            self._validate(validation)
            return
        if self.epoch >= arguments.epochs:
            self._say(f"=> {self.epoch} epochs are done and --epochs is {arguments.epochs}: nothing is left to train")
        for epoch in range(self.epoch, arguments.epochs):
            sampler.set_epoch(epoch)
            for group in self.optimizer.param_groups:
                group["lr"] = arguments.lr * 0.1 ** (epoch // 30)
            self._train(images, epoch)
            accuracy = self._validate(validation)
            self._save(epoch + 1, accuracy)

    def _say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def _dataset(self, part):
        arguments = self.arguments
        if arguments.data is None:
            count = arguments.synthetic_images or 4 * arguments.batch * arguments.world_size
            if part == "train":
                return SyntheticImages(count, arguments.image_size, seed=0)
            return SyntheticImages(max(1, count // 4), arguments.image_size, seed=1)
        dataset = ImageFolder(Path(arguments.data, part), arguments.image_size, augment=part == "train")
        if dataset.classes > networks.CLASSES:
            raise BadData(f"{dataset.folder} has {dataset.classes} classes, but the networks have {networks.CLASSES}")
        return dataset

    def _training_images(self):
        arguments = self.arguments
        dataset = self._dataset("train")
        if len(dataset) < arguments.batch * arguments.world_size:
            raise BadData(
                f"there are {len(dataset)} training images, but a step takes {arguments.batch} on each of {arguments.world_size} "
                "devices: give more images or a smaller --batch-size"
            )
        sampler = DistributedSampler(dataset, arguments.world_size, self.rank, seed=arguments.seed or 0, drop_last=True)
        return DataLoader(dataset, arguments.batch, sampler=sampler, num_workers=arguments.workers, drop_last=True), sampler

    def _validation_images(self):
        dataset = self._dataset("val")
        part = Subset(dataset, range(self.rank, len(dataset), self.arguments.world_size))
        return DataLoader(part, self.arguments.batch, num_workers=self.arguments.workers)

    def _train(self, images, epoch):
        self.model.train()
        totals, started, waited = Totals(self.device), time.perf_counter(), 0.0
        loaded = started
        for step, (batch, target) in enumerate(images):
            waited += time.perf_counter() - loaded
            batch, target = batch.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)
            output = self.model(batch)
            loss = self.criterion(output, target)
            self.optimizer.zero_grad()
            with self.amp.scale_loss(loss, self.optimizer) if self.amp else contextlib.nullcontext(loss) as scaled:
                scaled.backward()
            self.optimizer.step()
            sums = totals.add(loss, output, target)
            if step % self.arguments.print_freq == 0 and self.rank == 0:
                loss_now, top1, top5 = averages(sums)
                seconds = (time.perf_counter() - started) / (step + 1)
                self._say(
                    f"Epoch: [{epoch}][{step}/{len(images)}]\tTime {seconds:.3f}\tData {waited / (step + 1):.3f}"
                    f"\tLoss {loss_now:.4e}\tAcc@1 {top1:.2f}\tAcc@5 {top5:.2f}"
                )
            loaded = time.perf_counter()

    @torch.no_grad()
    def _validate(self, images):
        if self.arguments.distributed:
            _take_statistics_of_rank_0(self.net)
        self.net.eval()  # not self.model: DDP would communicate, and ranks may have different numbers of batches
        totals = Totals(self.device)
        for batch, target in images:
            batch, target = batch.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)
            output = self.net(batch)
            totals.add(self.criterion(output, target), output, target)
        if self.arguments.distributed:
            dist.all_reduce(totals.sums)
        loss, top1, top5 = averages(totals.sums)
        self._say(f" * Loss {loss:.4e} Acc@1 {top1:.3f} Acc@5 {top5:.3f}")
        return top1

    def _save(self, epoch, accuracy):
        best = accuracy > self.best
        self.best = max(self.best, accuracy)
        if self.local != 0:
            return
        state = {
            "epoch": epoch,
            "arch": self.arguments.arch,
            "state_dict": self.net.state_dict(),
            "best_acc1": self.best,
            "optimizer": self.optimizer.state_dict(),
        }
        if self.amp:
            state["amp"] = self.amp.state_dict()
        # A process may be killed at any point. So a checkpoint gets its name when it is complete. A restarted process overwrites
        # incomplete files.
        unfinished = f"{CHECKPOINT}.{self.rank}"
        torch.save(state, unfinished)
        if best:
            shutil.copyfile(unfinished, f"{BEST}.{self.rank}")
            os.replace(f"{BEST}.{self.rank}", BEST)
        os.replace(unfinished, CHECKPOINT)

    def _resume(self, path):
        checkpoint = read_checkpoint(path, self.arguments.arch, self.device)
        # The documents' scripts save the state of the wrapper.
        weights = {name.removeprefix("module."): value for name, value in checkpoint["state_dict"].items()}
        try:
            self.net.load_state_dict(weights)
            self.optimizer.load_state_dict(checkpoint["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise BadCheckpoint(f"--resume: {path} does not fit {self.arguments.arch}: {str(error).splitlines()[0]}") from None
        if self.amp and "amp" in checkpoint:
            self.amp.load_state_dict(checkpoint["amp"])
        self.epoch, self.best = checkpoint["epoch"], float(checkpoint["best_acc1"])
        self._say(f"=> loaded checkpoint {path} (epoch {self.epoch})")


def _take_statistics_of_rank_0(net):
    """Each rank has normalised its own images since the last step, so that running statistics differ."""
    statistics = [buffer for buffer in net.buffers() if buffer.is_floating_point()]
    if not statistics:
        return
    flat = torch.cat([buffer.flatten() for buffer in statistics])
    dist.broadcast(flat, 0)
    parts = flat.split([buffer.numel() for buffer in statistics])
    torch._foreach_copy_(statistics, [part.view_as(buffer) for part, buffer in zip(parts, statistics, strict=True)])


def _apex_amp():
    from apex import amp

    return amp
