"""Pooling of regions of feature maps."""

import torch
from torch.nn import functional

from ._define import check, op


@op(
    "npu_roi_align(Tensor self, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sample_num,"
    " int roi_end_mode) -> Tensor"
)
def npu_roi_align(self, rois, spatial_scale, pooled_height, pooled_width, sample_num, roi_end_mode):
    """[rois, channels, pooled_height, pooled_width]: means of sample_num x sample_num bilinear samples per bin; 0 takes as
    many as a bin has pixels. A roi is (image, x0, y0, x1, y1). roi_end_mode 0 takes its corners as they are, 1 adds a pixel to
    the end, 2 and 3 count from the centres of pixels (aligned)."""
    name = "npu_roi_align"
    check(self.dim() == 4, name, f"features have four dimensions, not {self.dim()}")
    out = self.new_empty(rois.size(0), self.size(1), pooled_height, pooled_width)
    parts = _bags(name, self.shape, self.dtype, rois, spatial_scale, (pooled_height, pooled_width), sample_num, roi_end_mode)
    table = self.permute(0, 2, 3, 1).reshape(-1, self.size(1))
    for chosen, index, weight in parts:
        pooled = functional.embedding_bag(index, table, mode="sum", per_sample_weights=weight)
        pooled = pooled.view(-1, pooled_height, pooled_width, self.size(1)).permute(0, 3, 1, 2)
        if chosen is None:
            return pooled.contiguous()
        out = out.index_copy(0, chosen, pooled)
    return out


@op(
    "npu_roi_alignbk(Tensor self, Tensor rois, int[] xdiff_shape, int pooled_width, int pooled_height, float spatial_scale,"
    " int sample_num, int? roi_end_mode=None) -> Tensor"
)
def npu_roi_alignbk(self, rois, xdiff_shape, pooled_width, pooled_height, spatial_scale, sample_num, roi_end_mode=None):
    """The gradient of npu_roi_align for its features, of the shape xdiff_shape, from the gradient of its result. Without
    roi_end_mode it is 0. pooled_width and pooled_height are the sizes of the gradient, in any order."""
    name = "npu_roi_alignbk"
    check(len(xdiff_shape) == 4, name, f"xdiff_shape has four numbers, not {len(xdiff_shape)}")
    expected = [rois.size(0), xdiff_shape[1], pooled_height, pooled_width]
    check(
        list(self.shape) in (expected, [*expected[:2], pooled_width, pooled_height]),
        name,
        f"the gradient is {expected}, not {list(self.shape)}",
    )
    bins = (self.size(2), self.size(3))
    mode = 0 if roi_end_mode is None else roi_end_mode
    batch, channels, height, width = xdiff_shape
    total = self.new_zeros(batch * height * width, channels)
    for chosen, index, weight in _bags(name, xdiff_shape, self.dtype, rois, spatial_scale, bins, sample_num, mode):
        grad = self if chosen is None else self.index_select(0, chosen)
        with torch.enable_grad():
            table = torch.zeros_like(total).requires_grad_()
            pooled = functional.embedding_bag(index, table, mode="sum", per_sample_weights=weight.detach())
        total = total + torch.autograd.grad(pooled, table, grad.permute(0, 2, 3, 1).reshape(pooled.shape))[0]
    return total.view(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()


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


def _bags(name, shape, dtype, rois, spatial_scale, bins, sample_num, roi_end_mode):
    """npu_roi_align as sums of rows of the table [batch * height * width, channels]: a list of (rois, index, weight). index and
    weight are [rois * bins, rows per bin]. `rois` is None for all of them, else their numbers. `bins` is (height, width)."""
    check(rois.dim() == 2 and rois.size(1) == 5, name, f"a roi is (image, x0, y0, x1, y1), so [n, 5], not {list(rois.shape)}")
    check(roi_end_mode in (0, 1, 2, 3), name, f"roi_end_mode is 0, 1, 2 or 3, not {roi_end_mode}")
    aligned = roi_end_mode >= 2
    image, corners = rois[:, 0].long(), rois[:, 1:].to(torch.float64 if dtype == torch.float64 else torch.float32)
    if roi_end_mode == 1:
        corners = corners + corners.new_tensor([0, 0, 1, 1])
    corners = corners * spatial_scale - (0.5 if aligned else 0)
    start, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if not aligned:
        size = size.clamp(min=1)
    if sample_num > 0:
        return [(None, *_rows(shape, dtype, image, start, size, bins, (sample_num, sample_num)))]
    groups = {}
    for roi, (x, y) in enumerate((size / size.new_tensor(bins[::-1])).ceil().clamp(min=1).int().tolist()):
        groups.setdefault((y, x), []).append(roi)
    parts = []
    for samples, members in groups.items():
        chosen = torch.tensor(members, device=rois.device)
        parts.append((chosen, *_rows(shape, dtype, image[chosen], start[chosen], size[chosen], bins, samples)))
    return parts


def _rows(shape, dtype, image, start, size, bins, samples):
    """(index, weight) of rois with the same number of samples (y, x) per bin. start and size are (x, y)."""
    taps = []
    for axis, length in ((0, shape[2]), (1, shape[3])):
        steps = bins[axis] * samples[axis]
        place = (torch.arange(steps, device=start.device, dtype=start.dtype) + 0.5) / steps
        place = start[:, 1 - axis, None] + place * size[:, 1 - axis, None]
        inside = (place >= -1) & (place <= length)
        place = place.clamp(0, length - 1)
        low = place.detach().floor()
        part = place - low
        weight = torch.stack((1 - part, part), -1) * (inside / samples[axis]).unsqueeze(-1)
        pixel = torch.stack((low, (low + 1).clamp(max=length - 1)), -1).long()
        taps.append([each.unflatten(1, (bins[axis], samples[axis])) for each in (pixel, weight)])
    (rows, row_weight), (columns, column_weight) = taps

    def outer(y, x):  # [rois, bins y, bins x, samples y, taps y, samples x, taps x]
        return y[:, :, None, :, :, None, None], x[:, None, :, None, None, :, :]

    rows, columns = outer(rows + (image * shape[2]).view(-1, 1, 1, 1), columns)
    row_weight, column_weight = outer(row_weight, column_weight)
    count = image.numel() * bins[0] * bins[1]
    each = 4 * samples[0] * samples[1]
    return (rows * shape[3] + columns).reshape(count, each), (row_weight * column_weight).reshape(count, each).to(dtype)
