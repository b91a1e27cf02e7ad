// What CUDA C++ has beyond C++, for one thread at a time: enough to run the kernels of the library as plain C++.
#pragma once

#include <cstddef>

#define __global__
#define __device__
#define __shared__ static

struct Index {
    unsigned x, y, z;
};

extern Index threadIdx, blockIdx, blockDim, gridDim;

// Lets the other threads of the block come to the same place.
void __syncthreads();

inline void __threadfence() {}
inline void __threadfence_system() {}

template <typename T> T atomicAdd(T *at, T value) {
    T old = *at;
    *at = old + value;
    return old;
}

template <typename T> T atomicXor(T *at, T value) {
    T old = *at;
    *at = old ^ value;
    return old;
}

template <typename T> T atomicExch(T *at, T value) {
    T old = *at;
    *at = value;
    return old;
}

template <typename T> T atomicMin(T *at, T value) {
    T old = *at;
    *at = old < value ? old : value;
    return old;
}
