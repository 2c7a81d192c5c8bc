"""Tensors of float32 and float16 are stacked, and the stream is waited for."""

import torch

xs = torch.rand(2240, 8).npu()
ys = torch.rand(2240, 8).npu()
gt_bboxes = torch.rand(2240, 8, 4).npu().half()
left = xs - gt_bboxes[..., 0]
right = gt_bboxes[..., 2] - xs
top = ys - gt_bboxes[..., 1]
bottom = gt_bboxes[..., 3] - ys
stream = torch.npu.current_stream()
stream.synchronize()
bbox_targets = torch.stack((left, top, right, bottom.half()), -1)
stream.synchronize()
assert bbox_targets.dtype == torch.float32
expected = torch.stack([each.cpu() for each in (left, top, right, bottom.half())], -1).sum()
torch.testing.assert_close(bbox_targets.sum().cpu(), expected)
