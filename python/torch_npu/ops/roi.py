"""Pooling of regions of feature maps."""

import torch

from ._define import check, op


@op(
    "npu_roi_align(Tensor self, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sample_num,"
    " int roi_end_mode) -> Tensor"
)
def npu_roi_align(self, rois, spatial_scale, pooled_height, pooled_width, sample_num, roi_end_mode):
    """[rois, channels, pooled_height, pooled_width]: means of sample_num x sample_num bilinear samples per bin; 0 takes as
    many as a bin has pixels. A roi is (image, x0, y0, x1, y1). roi_end_mode 0 takes its corners as they are, 1 adds a pixel to
    the end, 3 counts from the centres of pixels (aligned)."""
    name = "npu_roi_align"
    check(self.dim() == 4, name, f"features have four dimensions, not {self.dim()}")
    check(rois.dim() == 2 and rois.size(1) == 5, name, f"a roi is (image, x0, y0, x1, y1), so [n, 5], not {list(rois.shape)}")
    check(roi_end_mode in (0, 1, 3), name, f"roi_end_mode is 0, 1 or 3, not {roi_end_mode}")
    image, corners = rois[:, 0].long(), rois[:, 1:].to(self.dtype)
    if roi_end_mode == 1:
        corners = corners + corners.new_tensor([0, 0, 1, 1])
    corners = corners * spatial_scale - (0.5 if roi_end_mode == 3 else 0)
    start, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if roi_end_mode != 3:
        size = size.clamp(min=1)
    bins = (pooled_width, pooled_height)
    if sample_num > 0:
        return _align(self, image, start, size, bins, (sample_num, sample_num))
    counts = (size / size.new_tensor(bins)).ceil().clamp(min=1).int().tolist()
    parts = [_align(self, image[i, None], start[i, None], size[i, None], bins, own) for i, own in enumerate(counts)]
    return torch.cat(parts) if parts else self.new_zeros(0, self.size(1), pooled_height, pooled_width)


@op("npu_ps_roi_pooling(Tensor self, Tensor rois, float spatial_scale, int group_size, int output_dim) -> Tensor")
def npu_ps_roi_pooling(self, rois, spatial_scale, group_size, output_dim):
    """[batch * rois, output_dim, group_size, group_size]: bin (y, x) of a roi is the mean over that bin of channel (output *
    group_size + y) * group_size + x. rois are [batch, 5, n] with rows image, x0, y0, x1, y1. An empty bin, or a roi of an image
    that does not exist, is 0."""
    name = "npu_ps_roi_pooling"
    check(rois.dim() == 3 and rois.size(1) == 5, name, f"rois are [batch, 5, n], not {list(rois.shape)}")
    channels = output_dim * group_size * group_size
    check(
        self.dim() == 4 and self.size(1) == channels,
        name,
        f"features have output_dim * group_size * group_size = {channels} channels, not {list(self.shape)}",
    )
    height, width = self.shape[2:]
    rois = rois.transpose(1, 2).reshape(-1, 5).float()
    image = rois[:, 0].long()
    there = (image >= 0) & (image < self.size(0))
    image = image.clamp(0, self.size(0) - 1)
    start = rois[:, 1:3].round() * spatial_scale
    size = ((rois[:, 3:].round() + 1) * spatial_scale - start).clamp(min=0.1)
    step = torch.arange(group_size, device=self.device)
    inside = []
    for axis, length in ((1, height), (0, width)):
        bin = size[:, axis, None] / group_size
        low = (start[:, axis, None] + step * bin).floor().clamp(0, length)
        high = (start[:, axis, None] + (step + 1) * bin).ceil().clamp(0, length)
        pixel = torch.arange(length, device=self.device)
        inside.append(((pixel >= low[..., None]) & (pixel < high[..., None])).to(self.dtype))
    rows, columns = inside
    maps = self[image].unflatten(1, (output_dim, group_size, group_size))
    total = torch.einsum("rdyxhw,ryh,rxw->rdyx", maps, rows, columns)
    count = (rows.sum(-1)[:, :, None] * columns.sum(-1)[:, None, :]).unsqueeze(1)
    return torch.where((count > 0) & there.view(-1, 1, 1, 1), total / count.clamp(min=1), 0)


def _align(features, image, start, size, bins, samples):
    """npu_roi_align of rois with the same number of samples; pairs are (x, y)."""
    height, width = features.shape[2:]
    coordinates = []
    for axis in (0, 1):
        steps = bins[axis] * samples[axis]
        place = (torch.arange(steps, device=features.device, dtype=features.dtype) + 0.5) / steps
        coordinates.append(start[:, axis, None] + place * size[:, axis, None])
    x, y = coordinates
    rows = _hat(y, height)
    columns = _hat(x, width)
    sampled = torch.einsum("rchw,ryh,rxw->rcyx", features[image], rows, columns)
    sampled = sampled.unflatten(3, (bins[0], samples[0])).unflatten(2, (bins[1], samples[1]))
    return sampled.mean((3, 5))


def _hat(place, length):
    """[rois, samples, length]: weights of linear interpolation at places; 0 for places more than a pixel outside."""
    inside = (place >= -1) & (place <= length)
    place = place.clamp(0, length - 1)
    pixel = torch.arange(length, device=place.device, dtype=place.dtype)
    return (1 - (place.unsqueeze(-1) - pixel).abs()).clamp(min=0) * inside.unsqueeze(-1)
