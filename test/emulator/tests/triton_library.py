"""More Triton kernels for the core's tests: one idea each, of the kind that libraries of operators consist of."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(x, weight, bias, y, columns, epsilon, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    inside = i < columns
    value = tl.load(x + row * columns + i, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    result = centred * scale * tl.load(weight + i, mask=inside) + tl.load(bias + i, mask=inside)
    tl.store(y + row * columns + i, result, mask=inside)


@triton.jit
def rms_norm(x, y, columns: tl.constexpr):
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    value = tl.load(x + i)
    tl.store(y + i, value * tl.rsqrt(tl.sum(value * value, 0) / columns))


@triton.jit
def dropout(x, y, seed, keep, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    kept = tl.rand(seed, i) < keep
    tl.store(y + i, tl.where(kept, tl.load(x + i) / keep, 0.0))


@triton.jit
def histogram_of_block(x, y, block: tl.constexpr, bins: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.arange(0, block)), bins)
    tl.store(y + tl.arange(0, bins), counts)


@triton.jit
def compose(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(a, b, y, columns: tl.constexpr):
    # y[i] = a[i] * y[i - 1] + b[i]
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    _, value = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, compose)
    tl.store(y + i, value)


@triton.jit
def running_max(a, b):
    return tl.maximum(a, b)


@triton.jit
def scan_backwards(x, y, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, running_max, reverse=True))


@triton.jit
def one_tile_product(a, b, c, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr, out: tl.constexpr):
    i, j, r = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    left, right = tl.load(a + i[:, None] * k + r[None, :]), tl.load(b + r[:, None] * n + j[None, :])
    tl.store(c + i[:, None] * n + j[None, :], tl.dot(left, right, out_dtype=out))


@triton.jit
def split_k_product(a, b, c, k, m: tl.constexpr, n: tl.constexpr, part: tl.constexpr):
    i, j, r = tl.arange(0, m), tl.arange(0, n), tl.program_id(0) * part + tl.arange(0, part)
    left, right = tl.load(a + i[:, None] * k + r[None, :]), tl.load(b + r[:, None] * n + j[None, :])
    tl.atomic_add(c + i[:, None] * n + j[None, :], tl.dot(left, right))


@triton.jit
def batched_product(a, b, c, batch: tl.constexpr, size: tl.constexpr):
    g, i, j = tl.arange(0, batch)[:, None, None], tl.arange(0, size)[None, :, None], tl.arange(0, size)[None, None, :]
    at = g * size * size + i * size + j
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def gelu(x, y, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i)
    tl.store(y + i, 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476)))


@triton.jit
def cross_entropy(x, labels, loss, columns: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * columns + tl.arange(0, columns))
    top = tl.max(value, 0)
    total = tl.log(tl.sum(tl.exp(value - top), 0)) + top
    tl.store(loss + row, total - tl.load(x + row * columns + tl.load(labels + row)))


@triton.jit
def embedding(table, index, y, width: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, width)
    tl.store(y + row * width + i, tl.load(table + tl.load(index + row) * width + i))


@triton.jit
def scatter_add(x, index, y, width: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, width)
    tl.atomic_add(y + tl.load(index + row) * width + i, tl.load(x + row * width + i))


@triton.jit
def stencil(x, y, rows, columns, block: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for di in tl.static_range(-1, 2):
        for dj in tl.static_range(-1, 2):
            inside = (row + di >= 0) & (row + di < rows) & (j + dj >= 0) & (j + dj < columns)
            total += (2 * di + dj + 4) * tl.load(x + (row + di) * columns + j + dj, mask=inside, other=0.0)
    tl.store(y + row * columns + j, total, mask=j < columns)


@triton.jit
def row_extremes(x, where, least, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.arange(0, rows)
    tile = tl.load(x + i[:, None] * columns + tl.arange(0, columns)[None, :])
    tl.store(where + i, tl.argmax(tile, 1))
    tl.store(least + tl.arange(0, columns), tl.min(tile, 0))


@triton.jit
def max_pool(x, y, rows: tl.constexpr, columns: tl.constexpr):
    i, j = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
    tile = tl.load(x + i * columns + j)
    pooled = tl.max(tl.max(tl.reshape(tile, (rows // 2, 2, columns // 2, 2)), 3), 1)
    at = tl.arange(0, rows // 2)[:, None] * (columns // 2) + tl.arange(0, columns // 2)[None, :]
    tl.store(y + at, pooled)


@triton.jit
def reverse(x, y, columns: tl.constexpr):
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    tl.store(y + i, tl.flip(tl.load(x + i), 0))


@triton.jit
def complex_product(a, b, c, block: tl.constexpr):
    # Pairs (real, imaginary), interleaved.
    i = tl.arange(0, 2 * block)
    ar, ai = tl.split(tl.reshape(tl.load(a + i), (block, 2)))
    br, bi = tl.split(tl.reshape(tl.load(b + i), (block, 2)))
    tl.store(c + i, tl.interleave(ar * br - ai * bi, ar * bi + ai * br))


@triton.jit
def ticket_lock(lock, cell):
    # A critical section that programs enter one after the other: the cell is not updated atomically.
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(cell, tl.load(cell, volatile=True) * 3 + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def extreme_atomics(x, highest, lowest, bits, block: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * block + tl.arange(0, block))
    place = tl.arange(0, block) % 4
    tl.atomic_max(highest + place, value)
    tl.atomic_min(lowest + place, value)
    tl.atomic_or(bits + place, value)


@triton.jit
def exclusive_or(a, b):
    return a ^ b


@triton.jit
def checksum(x, y, columns: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, tl.reduce(tl.load(x + row * columns + tl.arange(0, columns)), 0, exclusive_or))


@triton.jit
def permute(x, y, a: tl.constexpr, b: tl.constexpr, c: tl.constexpr):
    i, j, k = tl.arange(0, a), tl.arange(0, b), tl.arange(0, c)
    tile = tl.load(x + (i[:, None, None] * b + j[None, :, None]) * c + k[None, None, :])
    tl.store(y + (k[:, None, None] * a + i[None, :, None]) * b + j[None, None, :], tl.permute(tile, (2, 0, 1)))


@triton.jit
def outer_f64(a, b, c, m: tl.constexpr, n: tl.constexpr):
    i, j = tl.arange(0, m)[:, None], tl.arange(0, n)[None, :]
    tl.store(c + i * n + j, tl.load(a + i) * tl.load(b + j) + tl.load(c + i * n + j))


@triton.jit
def quantize_rows(x, y, scales, columns: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, columns)
    value = tl.load(x + row * columns + i)
    scale = tl.max(tl.abs(value), 0) / 127.0
    tl.store(scales + row, scale)
    rounded = tl.floor(value / scale + 0.5)
    tl.store(y + row * columns + i, rounded.to(tl.int8))


@triton.jit
def dequantized_product(a, b, scales, c, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    i, j, r = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    right = tl.load(b + r[:, None] * n + j[None, :]).to(tl.float16)
    result = tl.dot(tl.load(a + i[:, None] * k + r[None, :]), right) * tl.load(scales + j)[None, :]
    tl.store(c + i[:, None] * n + j[None, :], result)


@triton.jit
def rotary(x, cosine, sine, y, half: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, half)
    at = row * 2 * half + i
    first, second = tl.load(x + at), tl.load(x + at + half)
    c, s = tl.load(cosine + row * half + i), tl.load(sine + row * half + i)
    tl.store(y + at, first * c - second * s)
    tl.store(y + at + half, second * c + first * s)


@triton.jit
def greatest_common_divisor(a, b, y, block: tl.constexpr):
    # Lanes finish after different numbers of rounds.
    i = tl.arange(0, block)
    x, z = tl.load(a + i), tl.load(b + i)
    while tl.max(z, 0) > 0:
        divisor = tl.where(z > 0, z, 1)
        rest = tl.where(z > 0, x % divisor, 0)
        x = tl.where(z > 0, z, x)
        z = rest
    tl.store(y + i, x)


@triton.jit
def adam(parameter, gradient, mean, square, rate, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    g = tl.load(gradient + i)
    m = 0.5 * tl.load(mean + i) + 0.5 * g
    v = 0.75 * tl.load(square + i) + 0.25 * g * g
    tl.store(mean + i, m)
    tl.store(square + i, v)
    tl.store(parameter + i, tl.load(parameter + i) - rate * m / (tl.sqrt(v) + 1.0))


@triton.jit
def grouped_ids(y, rows, columns, group):
    at = tl.program_id(0) * columns + tl.program_id(1)
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), rows, columns, group)
    tl.store(y + at, i * columns + j)


@triton.jit
def wide_products(a, b, high, low, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(high + i, tl.umulhi(tl.load(a + i), tl.load(b + i)))
    tl.store(low + i, tl.load(a + i) * tl.load(b + i))


@triton.jit
def magnitude_bits(x, y, block: tl.constexpr):
    i = tl.arange(0, block)
    bits = tl.load(x + i).to(tl.int32, bitcast=True)
    tl.store(y + i, ((bits >> 23) & 255) - 127)


@triton.jit
def wide_integers(a, b, y, block: tl.constexpr):
    i = tl.arange(0, block)
    x, z = tl.load(a + i), tl.load(b + i)
    tl.store(y + i, x * z)
    tl.store(y + block + i, x // z)
    tl.store(y + 2 * block + i, x % z)
    tl.store(y + 3 * block + i, x << (z & 63))
    tl.store(y + 4 * block + i, x >> (z & 63))
    tl.store(y + 5 * block + i, tl.cumsum(x, 0))


@triton.jit
def restart(first_flag, first, second_flag, second):
    return first_flag | second_flag, tl.where(second_flag != 0, second, first + second)


@triton.jit
def segmented_sums(flags, x, y, columns: tl.constexpr, backwards: tl.constexpr):
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    pair = (tl.load(flags + i).to(tl.int32), tl.load(x + i))
    _, value = tl.associative_scan(pair, 0, restart, reverse=backwards)
    tl.store(y + i, value)


@triton.jit
def gather_along(x, index, y, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr):
    i = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(y + i, tl.gather(tl.load(x + i), tl.load(index + i), axis))
