#!/usr/bin/env python3
"""The order of docs/formats/pretraining-order.md written a second time. Prints permutation.txt:
size, seed, epoch, then the first (at most eight) windows."""

M = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M
    return x ^ x >> 31


def key(seed, epoch):
    return mix((mix((seed + G) & M) + (epoch + 1) * G) & M)


def permute(size, k, p):
    h = max(4, -(-(size - 1).bit_length() // 2))
    mask = (1 << h) - 1
    while True:
        left, right = p >> h, p & mask
        for r in range(8):
            left, right = right, left ^ (mix(right ^ mix((k + (r + 1) * G) & M)) & mask)
        p = left << h | right
        if p < size:
            return p


for size in (1, 2, 3, 10, 255, 256, 257, 1000, 1 << 20, (1 << 33) + 7, 10**12, 1 << 62):
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (M, 12345)):
        k = key(seed, epoch)
        print(size, seed, epoch, *(permute(size, k, p) for p in range(min(8, size))))
