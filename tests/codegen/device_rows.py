"""Rows of a small device table for the tests of the table readers."""

import device_table

DEVICE = {
    "add": "aclnnAdd(Tensor self, Tensor other, Scalar alpha, Tensor! out): add.out(self, other, alpha, out) | engine add",
    "inplace": "aclnnInplaceAdd(Tensor! selfRef, Tensor other, Scalar alpha): add_.Tensor(selfRef, other, alpha)",
    "adds": "aclnnAdds(Tensor self, Scalar other, Scalar alpha, Tensor! out): add.Scalar_out(self, other, alpha, out)",
    "softmax": "aclnnSoftmax(Tensor self, int dim, Tensor! out): _softmax.out(self, dim, false, out) | dtypes floating",
    "mm": "aclnnMm(Tensor self, Tensor mat2, Tensor! out, int8 cubeMathType): mm.out(self, mat2, out)",
    "roll": "aclnnRoll(Tensor x, int[] shifts, int[] dims, Tensor! out): roll(x, shifts, dims)",
    "nonzero": "aclnnNonzero(Tensor self, Tensor! out): nonzero(self) | sync",
    "norm": "aclnnNorm(Tensor x, Tensor? weight, double eps, Tensor! y, Tensor!? mean): kernel norm | shapes broadcast",
    "foreach": "aclnnForeachAdd(Tensor[] x1, Tensor[] x2, Scalar alpha, Tensor![] out): kernel foreach_add(x1, x2, alpha, out)",
    "index": "aclnnIndex(Tensor self, Tensor?[] indices, Tensor! out): index.Tensor_out(self, indices, out)",
    "vector_norm": "aclnnVectorNorm(Tensor self, Scalar ord, int[]? dims, bool keep, dtype dtype, Tensor! out): "
    "linalg_vector_norm.out(self, ord, dims, keep, dtype, out)",
}


def device(tmp_path, *rows):
    path = tmp_path / "aclnn.yaml"
    path.write_text("\n".join(rows or DEVICE.values()))
    return device_table.read_device_table(path)
