from numba import cuda


@cuda.jit
def add(x):
    x[cuda.grid(1)] += 1


cuda.synchronize()
