"""Formats of tensors. The module has this name because checkpoints of the vendor's package refer to it."""

import enum


class Format(enum.IntEnum):
    """The numbers of the formats in the device library."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54


PRIVATE = frozenset(
    {
        Format.NC1HWC0,
        Format.FRACTAL_Z,
        Format.NC1HWC0_C04,
        Format.FRACTAL_NZ,
        Format.NDC1HWC0,
        Format.FRACTAL_Z_3D,
        Format.FRACTAL_NZ_C0_16,
        Format.FRACTAL_NZ_C0_32,
        Format.FRACTAL_NZ_C0_2,
        Format.FRACTAL_NZ_C0_4,
        Format.FRACTAL_NZ_C0_8,
    }
)
"""Formats that hardware lays out in blocks; the others are orders of dimensions."""
