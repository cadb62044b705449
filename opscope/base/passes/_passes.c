/* Passes over whole arrays that NumPy makes in several: looks for rare values, rounding, sums and products with both,
 * a table's values, a series, normal values from random bits, products as the matrix unit adds them and as the vector
 * unit does. Bits are those of the NumPy code in compiler/target/rounding.py, rare_values.py, simulator/plain.py,
 * by_pattern.py, kernels/special.py, kernels/addition_order.py, kernels/real/vector_unit.py and models/seeding.py, which says
 * what each means and is used where this file was not compiled.
 *
 * No sum of floats is reordered and no product contracted (setup.py: -ffp-contract=off), so that every compiler and
 * every processor gives the same bits. Each function checks types and lengths of its arrays before it touches one. It
 * keeps no state and lets other threads run meanwhile. Python's limited API: one build serves every version from 3.11.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define EXPONENT 0x7F800000u
#define SIGN 0x80000000u
#define SIZE 0x7FFFFFFFu
/* Elements that are gone through together: few enough for the nearest cache. */
#define BLOCK 1024

/* Where the linker can choose at load, loops are compiled for wide registers too. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define WIDE __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "avx2")))
#else
#define WIDE
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

INLINE uint32_t flushed(uint32_t bits, uint32_t mask) { return bits & EXPONENT ? bits & mask : 0; }
INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }

enum { AWAY, EVEN, TRUNCATE };

/* As the packer rounds: denormals and -0 are 0, NaN is Inf of its sign. */
INLINE uint32_t rounded(uint32_t bits, uint32_t keep, uint32_t half, int drop, int mode)
{
    uint32_t exponent = bits & EXPONENT;
    uint32_t add = mode == AWAY ? half : mode == EVEN ? ((bits >> drop) & 1) + half - 1 : 0;
    uint32_t finite = exponent == EXPONENT ? (bits & SIGN) | EXPONENT : (bits + add) & keep;
    return exponent ? finite : 0;
}

/* ---- one block each ---- */

WIDE static uint32_t small_floats(const uint32_t *x, size_t n, uint32_t size)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= ((x[i] & SIZE) < size) & (x[i] != 0);
    return any;
}

WIDE static uint32_t small_halves(const uint16_t *x, size_t n, uint16_t size)
{
    uint16_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= (uint16_t)(((uint16_t)(x[i] & 0x7FFF) < size) & (x[i] != 0));
    return any;
}

WIDE static uint32_t large_floats(const uint32_t *x, size_t n, uint32_t size)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= (x[i] & SIZE) >= size;
    return any;
}

WIDE static uint32_t differing(const uint32_t *x, size_t n, uint32_t mask)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= flushed(x[i], mask) ^ x[i];
    return any;
}

WIDE static void keep_floats(const uint32_t *x, uint32_t *out, size_t n, uint32_t mask)
{
    for (size_t i = 0; i < n; i++)
        out[i] = flushed(x[i], mask);
}

#define ROUNDING(NAME, MODE)                                                                                          \
    WIDE static void NAME##_floats(const uint32_t *x, uint32_t *out, size_t n, int drop)                              \
    {                                                                                                                 \
        uint32_t keep = 0xFFFFFFFFu << drop, half = 1u << (drop - 1);                                                 \
        for (size_t i = 0; i < n; i++)                                                                                \
            out[i] = rounded(x[i], keep, half, drop, MODE);                                                           \
    }                                                                                                                 \
    WIDE static void NAME##_halves(const uint32_t *x, uint16_t *out, size_t n)                                        \
    {                                                                                                                 \
        for (size_t i = 0; i < n; i++)                                                                                \
            out[i] = (uint16_t)(rounded(x[i], 0xFFFF0000u, 0x8000u, 16, MODE) >> 16);                                 \
    }

ROUNDING(away, AWAY)
ROUNDING(even, EVEN)
ROUNDING(truncate, TRUNCATE)

WIDE static void widen_halves(const uint16_t *x, uint32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)x[i] << 16;
}

/* Operands of `combine`, and its results: flushed, and whether a NaN is among them. */
WIDE static uint32_t load_floats(const uint32_t *x, uint32_t *out, size_t n)
{
    uint32_t nan = 0;
    for (size_t i = 0; i < n; i++) {
        nan |= (x[i] & SIZE) > EXPONENT;
        out[i] = flushed(x[i], ~0u);
    }
    return nan;
}

WIDE static uint32_t load_halves(const uint16_t *x, uint32_t *out, size_t n)
{
    uint32_t nan = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        nan |= (bits & SIZE) > EXPONENT;
        out[i] = flushed(bits, ~0u);
    }
    return nan;
}

/* `most`: the largest size that a result may have. `even`: ties are rounded to the nearest even, else away from 0. */
WIDE static uint32_t store_halves(const uint32_t *x, uint16_t *out, size_t n, uint32_t most, uint32_t even)
{
    uint32_t nan = 0;
    for (size_t i = 0; i < n; i++) {
        nan |= (x[i] & SIZE) > most;
        out[i] = (uint16_t)(((x[i] & EXPONENT ? x[i] : 0) + 0x8000u - (even & ~(x[i] >> 16) & 1u)) >> 16);
    }
    return nan;
}

#define OPERATION(NAME, VALUE)                                                                                        \
    WIDE static void NAME##_blocks(const float *left, const float *right, float *out, size_t n)                       \
    {                                                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                              \
            float a = left[i], b = right[i];                                                                          \
            out[i] = VALUE;                                                                                           \
        }                                                                                                             \
    }

OPERATION(add, a + b)
OPERATION(subtract, a - b)
OPERATION(multiply, a * b)
OPERATION(divide, a / b)
OPERATION(maximum, a > b ? a : b)
OPERATION(minimum, a < b ? a : b)

typedef void (*Operation)(const float *, const float *, float *, size_t);
static const struct {
    const char *name;
    Operation run;
    uint32_t most; /* The matrix unit computes these of halves: to it Inf is a number, and the result another one. */
    uint32_t even; /* Whether a half is rounded to the nearest even. */
} OPERATIONS[] = {
    {"add", add_blocks, EXPONENT - 1, 0},  {"subtract", subtract_blocks, EXPONENT - 1, 0},
    {"multiply", multiply_blocks, EXPONENT, 1}, {"divide", divide_blocks, EXPONENT, 0},
    {"maximum", maximum_blocks, EXPONENT, 0}, {"minimum", minimum_blocks, EXPONENT, 0},
};

INLINE float next_term(float total, float square, float term)
{
    float product = total * square;
    return product + term;
}

WIDE static void odd_block(const float *x, float *out, size_t n, const float *series, size_t terms, float bound)
{
    float square[BLOCK], total[BLOCK];
    for (size_t i = 0; i < n; i++) {
        float value = x[i] * x[i];
        square[i] = value > bound ? bound : value; /* NaN stays */
        total[i] = series[0];
    }
    size_t term = 1;
    for (; term + 3 <= terms; term += 3) /* three at a time, which stay in registers */
        for (size_t i = 0; i < n; i++) {
            float first = next_term(total[i], square[i], series[term]);
            float second = next_term(first, square[i], series[term + 1]);
            total[i] = next_term(second, square[i], series[term + 2]);
        }
    for (; term < terms; term++)
        for (size_t i = 0; i < n; i++)
            total[i] = next_term(total[i], square[i], series[term]);
    for (size_t i = 0; i < n; i++)
        out[i] = total[i] * x[i];
}

/* Bits of a float that do not choose its line, and lines for all floats up to 2^31. */
#define SHIFT 16
#define LINES (0x4F000000u / (1u << SHIFT) + 1)

/* Not for wide registers: reading lines from all over a table into one takes a third longer. */
static void normal_block(const uint32_t *restrict words, size_t n, const float *restrict offsets,
                         const float *restrict slopes, float scale, float shift, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        float value = (float)(int32_t)(words[i] & SIZE);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        float product = value * slopes[bits >> SHIFT];
        float magnitude = (product + offsets[bits >> SHIFT]) * scale;
        memcpy(&bits, &magnitude, sizeof bits);
        bits ^= words[i] & SIGN;
        memcpy(&value, &bits, sizeof bits);
        out[i] = value + shift;
    }
}

/* Products of tiles: columns and inner places that are computed together, and products that the unit aligns as one. */
#define COLUMNS 64
#define ROWS 256
#define DEPTH 32
#define GROUP 8
/* The exponent of a 0 among operands: no sum with it is above that of a number. */
#define NONE (-4096)

INLINE float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The most significant bits of an operand (5 of the right one, 7 of the left one), and those that later phases read.
 * The right one's are four times as large, so that products have room for a bit that decides ties. All in 16 bits, of
 * which twice as many are computed at once as of 32. */
typedef struct {
    int16_t exponent[DEPTH][COLUMNS];
    int16_t significand[2][DEPTH][COLUMNS];
} Block;

INLINE void take_apart(const uint32_t *x, size_t n, int16_t *exponent, int16_t *first, int16_t *rest, int is_left)
{
    for (size_t i = 0; i < n; i++) {
        int32_t field = (int32_t)(x[i] & EXPONENT) >> 23, value = (int32_t)((x[i] >> 13) & 0x3FF) | 0x400;
        int32_t high = is_left ? value >> 4 : value >> 6 << 2;
        int32_t low = is_left ? (value & 15) << 3 : (value >> 1 & 31) << 2;
        int32_t sign = x[i] & SIGN ? -1 : 1, there = field != 0;
        exponent[i] = (int16_t)(there ? field : NONE);
        first[i] = (int16_t)(high * sign * there);
        rest[i] = (int16_t)(low * sign * there);
    }
}

/* Some rows of a tile of the left operand, which are the same for all blocks of columns. */
typedef struct {
    int16_t exponent[ROWS][DEPTH];
    int16_t significand[2][ROWS][DEPTH];
} Rows;

WIDE static void take_rows(const uint32_t *left, size_t stride, size_t rows, size_t depth, Rows *taken)
{
    for (size_t row = 0; row < rows; row++) {
        uint32_t part[DEPTH] = {0};
        memcpy(part, left + row * stride, depth * sizeof *part);
        take_apart(part, DEPTH, taken->exponent[row], taken->significand[0][row], taken->significand[1][row], 1);
    }
}

/* A tile of the right operand, filled with 0. */
WIDE static void take_block(const uint32_t *right, size_t width, size_t places, size_t columns, Block *block)
{
    for (size_t place = 0; place < DEPTH; place++) {
        uint32_t part[COLUMNS] = {0};
        if (place < places)
            memcpy(part, right + place * width, columns * sizeof *part);
        take_apart(part, COLUMNS, block->exponent[place], block->significand[0][place], block->significand[1][place],
                   0);
    }
}

/* The largest exponent of the products of each group, and the scales by which its products are aligned to it: those of
 * all phases, whose exponents lie a number apart that is the same for all. A scale is made as a float, since not every
 * processor shifts each number by its own. */
INLINE void align_group(const int16_t *exponents, const int16_t (*right)[COLUMNS], int16_t *top,
                        int16_t (*scale)[COLUMNS])
{
    for (size_t j = 0; j < COLUMNS; j++) {
        int16_t most = 2 * NONE;
        for (size_t k = 0; k < GROUP; k++) {
            int16_t exponent = (int16_t)(exponents[k] + right[k][j]);
            most = exponent > most ? exponent : most;
        }
        top[j] = most;
    }
    for (size_t k = 0; k < GROUP; k++)
        for (size_t j = 0; j < COLUMNS; j++) {
            int32_t down = top[j] - exponents[k] - right[k][j];
            scale[k][j] = (int16_t)as_float((uint32_t)(127 + 13 - (down > 15 ? 15 : down)) << 23);
        }
}

/* Products of a group, each rounded to the nearest and halves away from 0: a product has 12 bits, its scale is a power
 * of two, and the bit below makes a half more than one. Nothing is left of a group whose largest exponent is not above
 * the least one. */
INLINE void add_group(const int16_t *factors, const int16_t (*significands)[COLUMNS], const int16_t (*scale)[COLUMNS],
                      const int16_t *aligned, int32_t offset, int32_t least, int32_t *top, int32_t *sum)
{
    int16_t totals[COLUMNS];
    for (size_t j = 0; j < COLUMNS; j++) {
        int16_t total = 0;
        for (size_t k = 0; k < GROUP; k++) {
            int16_t product = (int16_t)(factors[k] * significands[k][j]);
            product = (int16_t)(product + (product >> 15 | 1));
            total = (int16_t)(total + (int16_t)((((int32_t)product * scale[k][j] >> 14) + 1) >> 1));
        }
        totals[j] = total;
    }
    for (size_t j = 0; j < COLUMNS; j++) {
        int32_t most = aligned[j] - offset;
        top[j] = most > least ? most : least;
        sum[j] = most > least ? totals[j] : 0;
    }
}

INLINE int32_t shifted(int32_t size, int32_t places, int32_t negative)
{
    places = places > 30 ? 30 : places;
    int32_t half = (1 << places) >> 1;
    return (size + half - (places ? negative : 0)) >> places;
}

/* What a register of the unit is after two groups are added to it. Its exponents lie above `low` and below `high`; of
 * its 23 bits of fraction `drop` are rounded away. */
INLINE void add_to_register(const int32_t (*top)[COLUMNS], const int32_t (*sum)[COLUMNS], uint32_t *dst, size_t n,
                                 int32_t low, int32_t high, int32_t drop, uint32_t largest)
{
    int32_t cut = drop ? 0x1FFF : 0;
    for (size_t j = 0; j < n; j++) {
        int32_t own = (int32_t)(dst[j] & EXPONENT) >> 23, own_sign = (int32_t)(dst[j] >> 31);
        int32_t size = own > low ? (int32_t)(dst[j] & 0x7FFFFF) | 0x800000 : 0;
        int32_t first = top[0][j], second = top[1][j];
        int32_t most = first > second ? first : second;
        most = own > most ? own : most;
        int32_t first_negative = sum[0][j] < 0, second_negative = sum[1][j] < 0;
        int32_t a = (first_negative ? -sum[0][j] : sum[0][j]) << 13;
        int32_t b = (second_negative ? -sum[1][j] : sum[1][j]) << 13;
        a = shifted(a, most - first, first_negative);
        b = shifted(b, most - second, second_negative);
        size = shifted(size, most - own, 0);
        a = (a + (cut ? 0x1000 - first_negative : 0)) & ~cut;
        b = (b + (cut ? 0x1000 - second_negative : 0)) & ~cut;
        size = (size + (cut ? 0x1000 : 0)) & ~cut;
        int32_t total = (own_sign ? -size : size) + (first_negative ? -a : a) + (second_negative ? -b : b);
        uint32_t sign = total < 0 ? SIGN : 0;
        int32_t whole = total < 0 ? -total : total;
        /* Without the bit after the first one, which could round up, a float has the exponent of an integer. */
        int32_t leading = (int32_t)(as_bits((float)(whole & ~(whole >> 1))) >> 23) - 127;
        int32_t exponent = most + leading - 23, right = leading - 23 + drop, left = right < 0 ? -right : 0;
        right = right > 0 ? right : 0;
        left = left > 23 ? 23 : left;
        int32_t bits = (((whole << left) + ((1 << right) >> 1)) >> right) << drop;
        exponent += bits >> 24 & 1;
        uint32_t value = sign | (uint32_t)exponent << 23 | (uint32_t)(bits & 0x7FFFFF);
        value = exponent >= high ? sign | largest : value;
        dst[j] = whole == 0 || exponent <= low ? 0 : value;
    }
}

/* Adds to a block of columns of the result the products of one tile of the inner dim. */
WIDE static void add_tile(const Rows *left, size_t rows, size_t depth, const Block *right, uint32_t *dst, size_t columns,
                          size_t width, uint32_t phases, const int32_t *limits, uint32_t largest)
{
    int32_t top[2][COLUMNS], sum[2][COLUMNS];
    int16_t aligned[DEPTH / GROUP][COLUMNS], scale[DEPTH][COLUMNS];
    for (size_t row = 0; row < rows; row++) {
        for (size_t k = 0; k < depth; k += 2 * GROUP)
            for (size_t at = k; at < k + 2 * GROUP; at += GROUP)
                align_group(left->exponent[row] + at, right->exponent + at, aligned[at / GROUP], scale + at);
        for (int phase = 0; phase < 4; phase++) {
            if (!(phases >> phase & 1))
                continue;
            int low_right = phase & 1, low_left = phase >> 1;
            for (size_t k = 0; k < depth; k += 2 * GROUP) {
                for (size_t group = 0; group < 2; group++) {
                    size_t at = k + group * GROUP;
                    add_group(left->significand[low_left][row] + at, right->significand[low_right] + at, scale + at,
                              aligned[at / GROUP], 127 + 5 * low_right + 7 * low_left, limits[0], top[group], sum[group]);
                }
                if (limits[2])
                    add_to_register(top, sum, dst + row * width, columns, limits[0], limits[1], limits[2], largest);
                else /* of 32 bits: a third of the steps go when they are compiled for it */
                    add_to_register(top, sum, dst + row * width, columns, 0, 255, 0, EXPONENT);
            }
        }
    }
}

/* The vector unit's numbers have 3 bits more than float32 while two are added, and whether there was more. */
enum { EXTRA = 3 };

INLINE uint64_t with_first_bit(uint32_t bits) { return bits & EXPONENT ? (bits & 0x7FFFFF) | 0x800000 : 0; }

/* Shifted; the last bit tells of bits that are gone, unless all are. */
INLINE uint64_t with_lost_bits(uint64_t value, int32_t down)
{
    uint64_t left = down > 62 ? 0 : value >> down;
    return left && left << down != value ? left | 1 : left;
}

/* x y + z where one of them is Inf or NaN, or the product alone is too large. */
static uint32_t fused_end(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t a = x & SIZE, b = y & SIZE, c = z & SIZE, sign = (x ^ y) & SIGN;
    int no_number = a > EXPONENT || b > EXPONENT || c > EXPONENT;
    no_number |= (a == EXPONENT && !with_first_bit(y)) || (b == EXPONENT && !with_first_bit(x));
    no_number |= c == EXPONENT && (a == EXPONENT || b == EXPONENT) && (z & SIGN) != sign;
    return no_number ? 0x7FC00000u : c == EXPONENT ? z : sign | EXPONENT;
}

/* x y + z of the vector unit. */
INLINE uint32_t fused(uint32_t x, uint32_t y, uint32_t z)
{
    int32_t ex = x >> 23 & 255, ey = y >> 23 & 255, ez = z >> 23 & 255, ep = ex + ey - 127;
    uint32_t sign = (x ^ y) & SIGN;
    if (ex == 255 || ey == 255 || ez == 255 || ep >= 255)
        return fused_end(x, y, z);
    uint64_t p = with_first_bit(x) * with_first_bit(y) << EXTRA, c = with_first_bit(z) << EXTRA;
    if (!p || ep < 0)
        return c ? z : z & sign;
    p = with_lost_bits(p, 23) | ((p & 0x7FFFFF) != 0);
    int32_t exponent = ep > ez ? ep : ez;
    p = with_lost_bits(p, exponent - ep);
    c = with_lost_bits(c, exponent - ez);
    uint64_t total = ((z ^ sign) & SIGN) == 0 ? p + c : p >= c ? p - c : c - p;
    if (!total)
        return z & sign;
    sign = p >= c ? sign : z & SIGN;
    /* The place of the first bit, by which the sum is made one of 24 bits and those extra. */
    double wide = (double)total;
    uint64_t pattern;
    memcpy(&pattern, &wide, sizeof pattern);
    int32_t down = (int32_t)(pattern >> 52) - 1023 - 26;
    exponent += down;
    if (exponent >= 255)
        return sign | EXPONENT;
    if (exponent <= 0) {
        exponent = 0;
        down++;
    }
    total = down <= 0 ? total << -down : total >> down | ((total & (uint64_t)(down | 1)) != 0);
    uint32_t result = ((uint32_t)exponent << 23) + (uint32_t)(total >> EXTRA & 0x7FFFFF);
    result += (total & 7) + (result & 1) > 4;
    return sign | (result >> 23 ? result : 0);
}

/* A number of 32 bits shifted; the last bit tells of bits that are gone, unless all are. */
INLINE uint32_t with_lost_bits_32(uint32_t value, int32_t down)
{
    down = down > 31 ? 31 : down;
    uint32_t left = value >> down;
    return left | ((left != 0) & (left << down != value));
}

/* x y + z of many, none with a choice in it: where an operand or the result is not usual, `rare` says so and `out` is of
 * no use. Float32 rounds to the nearest even what has up to 29 bits. */
WIDE static uint32_t fused_block(const uint32_t *restrict x, const uint32_t *restrict y, const uint32_t *restrict z,
                                 uint32_t *restrict out, uint32_t *restrict rare, size_t n)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t ex = x[i] >> 23 & 255, ey = y[i] >> 23 & 255, ez = z[i] >> 23 & 255, ep = ex + ey - 127;
        uint64_t wide = (uint64_t)((x[i] & 0x7FFFFF) | 0x800000) * ((y[i] & 0x7FFFFF) | 0x800000) << EXTRA;
        uint32_t p = (uint32_t)(wide >> 23) | ((wide & 0x7FFFFF) != 0);
        uint32_t c = ((z[i] & 0x7FFFFF) | 0x800000) << EXTRA;
        uint32_t usual = (ex != 0) & (ey != 0) & (ex != 255) & (ey != 255) & (ez != 255) & (ep >= 0) & (ep < 255);
        c = ez ? c : 0;
        int32_t exponent = ep > ez ? ep : ez;
        p = with_lost_bits_32(p, exponent - ep);
        c = with_lost_bits_32(c, exponent - ez);
        uint32_t p_sign = (x[i] ^ y[i]) & SIGN, c_sign = z[i] & SIGN;
        int32_t total = (int32_t)(p_sign == c_sign ? p + c : p - c);
        uint32_t sign = p_sign ^ (total < 0 ? SIGN : 0);
        uint32_t pattern = as_bits((float)(total < 0 ? -total : total));
        int32_t field = (int32_t)(pattern >> 23) - 127 - 26 + exponent;
        rare[i] = !(usual & (total != 0) & (field > 0) & (field < 255));
        out[i] = sign | (pattern + ((uint32_t)(exponent - 127 - 26) << 23));
        any |= rare[i];
    }
    return any;
}

/* ---- arrays ---- */

typedef struct {
    Py_buffer view;
    void *data, *copy;
    size_t count;
    int taken;
} Array;

/* Takes the memory of a contiguous array whose type is one of the letters; -1 with an exception for another object.
 * What does not lie at a multiple of its items' size, as in the middle of a file, is copied: loops rely on that. */
static int take(PyObject *object, Array *array, const char *letters, int writable)
{
    array->taken = 0;
    array->copy = NULL;
    if (PyObject_GetBuffer(object, &array->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)))
        return -1;
    array->taken = 1;
    const char *format = array->view.format ? array->view.format : "B";
    format += *format == '='; /* of the processor's order, at any address */
    Py_ssize_t item = strchr("fIi", format[0]) ? 4 : strchr("Hh", format[0]) ? 2 : 1;
    if (!format[0] || format[1] || !strchr(letters, format[0]) || array->view.itemsize != item) {
        PyErr_Format(PyExc_TypeError, "expected an array of type %s, got %s", letters, format);
        return -1;
    }
    array->count = (size_t)(array->view.len / item);
    array->data = array->view.buf;
    if ((uintptr_t)array->data % (size_t)item == 0)
        return 0;
    if (writable) {
        PyErr_SetString(PyExc_ValueError, "expected an aligned array for the result");
        return -1;
    }
    array->data = array->copy = PyMem_Malloc((size_t)array->view.len + 1);
    if (!array->copy) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(array->copy, array->view.buf, (size_t)array->view.len);
    return 0;
}

static void give_back(Array *arrays, int count)
{
    for (int i = 0; i < count; i++)
        if (arrays[i].taken) {
            PyMem_Free(arrays[i].copy);
            PyBuffer_Release(&arrays[i].view);
        }
}

static int counted(Py_ssize_t count, Py_ssize_t expected)
{
    if (count == expected)
        return 0;
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, count);
    return -1;
}

static int same_length(const Array *a, const Array *b)
{
    if (a->count == b->count)
        return 0;
    PyErr_Format(PyExc_ValueError, "expected arrays of one length, got %zu and %zu", a->count, b->count);
    return -1;
}

/* A number of 32 bits; -1 with an exception for another object. */
static int number(PyObject *object, uint32_t *value)
{
    unsigned long got = PyLong_AsUnsignedLong(object);
    if (PyErr_Occurred())
        return -1;
    if (got > 0xFFFFFFFFul) {
        PyErr_SetString(PyExc_ValueError, "expected a number of 32 bits");
        return -1;
    }
    *value = (uint32_t)got;
    return 0;
}

static int mode_of(PyObject *object)
{
    static const char *const modes[] = {"away", "even", "truncate"};
    for (int mode = AWAY; PyUnicode_Check(object) && mode <= TRUNCATE; mode++)
        if (PyUnicode_CompareWithASCIIString(object, modes[mode]) == 0)
            return mode;
    PyErr_SetString(PyExc_ValueError, "expected a mode of away, even, truncate");
    return -1;
}

/* has_tiny(pattern, size): -0, or a number other than 0 whose pattern without its sign is below size. */
static PyObject *has_tiny(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array x;
    uint32_t size, any = 0;
    if (counted(count, 2) || number(args[1], &size))
        return NULL;
    if (take(args[0], &x, "IH", 0)) {
        give_back(&x, 1);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t at = 0; at < x.count && !any; at += BLOCK) {
        size_t n = least(BLOCK, x.count - at);
        any = x.view.itemsize == 4 ? small_floats((const uint32_t *)x.data + at, n, size)
                                   : small_halves((const uint16_t *)x.data + at, n, (uint16_t)least(size, 0x8000));
    }
    Py_END_ALLOW_THREADS
    give_back(&x, 1);
    return PyBool_FromLong(any != 0);
}

typedef uint32_t (*Look)(const uint32_t *, size_t, uint32_t);

static PyObject *looked(PyObject *const *args, Py_ssize_t count, Look look)
{
    Array x;
    uint32_t word, any = 0;
    if (counted(count, 2) || number(args[1], &word))
        return NULL;
    if (take(args[0], &x, "fI", 0)) {
        give_back(&x, 1);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t at = 0; at < x.count && !any; at += BLOCK)
        any = look((const uint32_t *)x.data + at, least(BLOCK, x.count - at), word);
    Py_END_ALLOW_THREADS
    give_back(&x, 1);
    return PyBool_FromLong(any != 0);
}

/* reaches(pattern, size): a pattern that without its sign is size or more. */
static PyObject *reaches(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return looked(args, count, large_floats);
}

/* changes(x, mask): whether keep(x, mask, out) would write anything but x. */
static PyObject *changes(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return looked(args, count, differing);
}

/* keep(x, mask, out): the bits of the mask, denormals and -0 as 0. */
static PyObject *keep(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[2] = {{.taken = 0}, {.taken = 0}};
    uint32_t mask;
    if (counted(count, 3) || number(args[1], &mask))
        return NULL;
    if (take(args[0], &arrays[0], "fI", 0) || take(args[2], &arrays[1], "fI", 1) ||
        same_length(&arrays[0], &arrays[1])) {
        give_back(arrays, 2);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    keep_floats(arrays[0].data, arrays[1].data, arrays[0].count, mask);
    Py_END_ALLOW_THREADS
    give_back(arrays, 2);
    Py_RETURN_NONE;
}

/* round_floats(x, drop, mode, out): without the last drop bits, rounded as the packer does. */
static PyObject *round_floats(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[2] = {{.taken = 0}, {.taken = 0}};
    uint32_t drop;
    int mode;
    if (counted(count, 4) || number(args[1], &drop) || (mode = mode_of(args[2])) < 0)
        return NULL;
    if (drop < 1 || drop > 22) {
        PyErr_SetString(PyExc_ValueError, "expected 1 to 22 bits to drop");
        return NULL;
    }
    if (take(args[0], &arrays[0], "fI", 0) || take(args[3], &arrays[1], "fI", 1) ||
        same_length(&arrays[0], &arrays[1])) {
        give_back(arrays, 2);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    (mode == AWAY ? away_floats : mode == EVEN ? even_floats : truncate_floats)(
        arrays[0].data, arrays[1].data, arrays[0].count, (int)drop);
    Py_END_ALLOW_THREADS
    give_back(arrays, 2);
    Py_RETURN_NONE;
}

/* narrow(x, mode, out): the same with 16 bits to drop, as the 16 that are left. */
static PyObject *narrow(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[2] = {{.taken = 0}, {.taken = 0}};
    int mode;
    if (counted(count, 3) || (mode = mode_of(args[1])) < 0)
        return NULL;
    if (take(args[0], &arrays[0], "fI", 0) || take(args[2], &arrays[1], "H", 1) ||
        same_length(&arrays[0], &arrays[1])) {
        give_back(arrays, 2);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    (mode == AWAY ? away_halves : mode == EVEN ? even_halves : truncate_halves)(
        arrays[0].data, arrays[1].data, arrays[0].count);
    Py_END_ALLOW_THREADS
    give_back(arrays, 2);
    Py_RETURN_NONE;
}

/* widen(halves, out): bfloat16's bits as float32. */
static PyObject *widen(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[2] = {{.taken = 0}, {.taken = 0}};
    if (counted(count, 2))
        return NULL;
    if (take(args[0], &arrays[0], "H", 0) || take(args[1], &arrays[1], "fI", 1) ||
        same_length(&arrays[0], &arrays[1])) {
        give_back(arrays, 2);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    widen_halves(arrays[0].data, arrays[1].data, arrays[0].count);
    Py_END_ALLOW_THREADS
    give_back(arrays, 2);
    Py_RETURN_NONE;
}

/* A block of an operand, or of one number as often: float32, denormals and -0 as 0. Whether a NaN is among them. */
static uint32_t load(const Array *x, size_t at, size_t n, uint32_t *block)
{
    size_t length = x->count == 1 ? 1 : n;
    at = x->count == 1 ? 0 : at;
    uint32_t nan = x->view.itemsize == 2 ? load_halves((const uint16_t *)x->data + at, block, length)
                                         : load_floats((const uint32_t *)x->data + at, block, length);
    for (size_t i = length; i < n; i++)
        block[i] = block[0];
    return nan;
}

/* combine(name, left, right, out): both operands' denormals are 0, and the result is rounded as it is packed. An
 * operand may be one number. False, and out is of no use, where an operand or a result is NaN, or a half of the
 * matrix unit's is Inf. */
static PyObject *combine(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[3] = {{.taken = 0}, {.taken = 0}, {.taken = 0}};
    Operation run = NULL;
    uint32_t nan = 0, most = 0, even = 0;
    if (counted(count, 4))
        return NULL;
    for (size_t i = 0; PyUnicode_Check(args[0]) && i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
        if (PyUnicode_CompareWithASCIIString(args[0], OPERATIONS[i].name) == 0) {
            run = OPERATIONS[i].run;
            most = OPERATIONS[i].most;
            even = OPERATIONS[i].even;
        }
    if (!run) {
        PyErr_SetString(PyExc_ValueError, "expected the name of an operation");
        return NULL;
    }
    Array *left = &arrays[0], *right = &arrays[1], *out = &arrays[2];
    if (take(args[1], left, "fH", 0) || take(args[2], right, "fH", 0) || take(args[3], out, "fH", 1) ||
        (left->count != 1 && same_length(left, out)) || (right->count != 1 && same_length(right, out))) {
        give_back(arrays, 3);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    uint32_t a[BLOCK], b[BLOCK], c[BLOCK];
    for (size_t at = 0; at < out->count && !nan; at += BLOCK) {
        size_t n = least(BLOCK, out->count - at);
        if (at == 0 || left->count != 1)
            nan |= load(left, at, n, a);
        if (at == 0 || right->count != 1)
            nan |= load(right, at, n, b);
        run((const float *)a, (const float *)b, (float *)c, n);
        nan |= out->view.itemsize == 2 ? store_halves(c, (uint16_t *)out->data + at, n, most, even)
                                       : load_floats(c, (uint32_t *)out->data + at, n);
    }
    Py_END_ALLOW_THREADS
    give_back(arrays, 3);
    return PyBool_FromLong(nan == 0);
}

/* look_up(table, index, out): the value at each index of 16 bits in a table of 65,536. */
static PyObject *look_up(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[3] = {{.taken = 0}, {.taken = 0}, {.taken = 0}};
    if (counted(count, 3))
        return NULL;
    Array *table = &arrays[0], *index = &arrays[1], *out = &arrays[2];
    if (take(args[0], table, "fIiHhBb?", 0) || take(args[1], index, "H", 0) || take(args[2], out, "fIiHhBb?", 1) ||
        same_length(index, out)) {
        give_back(arrays, 3);
        return NULL;
    }
    if (table->count != 1 << 16 || table->view.itemsize != out->view.itemsize) {
        PyErr_SetString(PyExc_ValueError, "expected a table of 65,536 of the result's type");
        give_back(arrays, 3);
        return NULL;
    }
    const uint16_t *at = index->data;
    size_t n = index->count, item = (size_t)table->view.itemsize;
    Py_BEGIN_ALLOW_THREADS
    if (item == 4)
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)out->data)[i] = ((const uint32_t *)table->data)[at[i]];
    else if (item == 2)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out->data)[i] = ((const uint16_t *)table->data)[at[i]];
    else
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)out->data)[i] = ((const uint8_t *)table->data)[at[i]];
    Py_END_ALLOW_THREADS
    give_back(arrays, 3);
    Py_RETURN_NONE;
}

/* odd_series(x, series, bound, out): x times a series, highest first, in the square of x or the bound, if that is
 * less; in float32, each step rounded. */
static PyObject *odd_series(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[3] = {{.taken = 0}, {.taken = 0}, {.taken = 0}};
    if (counted(count, 4))
        return NULL;
    double bound = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred())
        return NULL;
    Array *x = &arrays[0], *series = &arrays[1], *out = &arrays[2];
    if (take(args[0], x, "f", 0) || take(args[1], series, "f", 0) || take(args[3], out, "f", 1) ||
        same_length(x, out)) {
        give_back(arrays, 3);
        return NULL;
    }
    if (series->count == 0) {
        PyErr_SetString(PyExc_ValueError, "expected a series of one term or more");
        give_back(arrays, 3);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t at = 0; at < x->count; at += BLOCK)
        odd_block((const float *)x->data + at, (float *)out->data + at, least(BLOCK, x->count - at),
                  series->data, series->count, (float)bound);
    Py_END_ALLOW_THREADS
    give_back(arrays, 3);
    Py_RETURN_NONE;
}

/* normal(words, offsets, slopes, scale, shift, out): a normal value for each word of 32 random bits, by the lines of the
 * inverse distribution, times a number, plus another. */
static PyObject *normal(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[4] = {{.taken = 0}, {.taken = 0}, {.taken = 0}, {.taken = 0}};
    if (counted(count, 6))
        return NULL;
    double scale = PyFloat_AsDouble(args[3]), shift = PyErr_Occurred() ? 0 : PyFloat_AsDouble(args[4]);
    if (PyErr_Occurred())
        return NULL;
    Array *words = &arrays[0], *offsets = &arrays[1], *slopes = &arrays[2], *out = &arrays[3];
    if (take(args[0], words, "I", 0) || take(args[1], offsets, "f", 0) || take(args[2], slopes, "f", 0) ||
        take(args[5], out, "f", 1) || same_length(words, out) || same_length(offsets, slopes)) {
        give_back(arrays, 4);
        return NULL;
    }
    if (offsets->count < LINES) {
        PyErr_Format(PyExc_ValueError, "expected %u lines, got %zu", LINES, offsets->count);
        give_back(arrays, 4);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t at = 0; at < out->count; at += BLOCK)
        normal_block((const uint32_t *)words->data + at, least(BLOCK, out->count - at), offsets->data, slopes->data,
                     (float)scale, (float)shift, (float *)out->data + at);
    Py_END_ALLOW_THREADS
    give_back(arrays, 4);
    Py_RETURN_NONE;
}

/* add_products(left, right, depth, width, phases, register, dst): adds to what a register holds the products of a
 * matrix of `depth` columns with one of `width`, in the matrix unit's order. A bit of `phases` for each phase that is
 * taken; the register is Float32, Float16_b or Float16. */
static PyObject *add_products(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    static const struct {
        const char *name;
        int32_t limits[3];
        uint32_t largest;
    } REGISTERS[] = {
        {"Float32", {0, 255, 0}, EXPONENT},
        {"Float16_b", {0, 255, 16}, EXPONENT},
        {"Float16", {112, 144, 13}, 0x47FFE000u},
    };
    Array arrays[3] = {{.taken = 0}, {.taken = 0}, {.taken = 0}};
    uint32_t depth, width, phases;
    size_t kind = 0, kinds = sizeof REGISTERS / sizeof *REGISTERS;
    if (counted(count, 7) || number(args[2], &depth) || number(args[3], &width) || number(args[4], &phases))
        return NULL;
    while (kind < kinds &&
           !(PyUnicode_Check(args[5]) && PyUnicode_CompareWithASCIIString(args[5], REGISTERS[kind].name) == 0))
        kind++;
    if (kind == kinds || !depth || !width) {
        PyErr_SetString(PyExc_ValueError, "expected a depth, a width and the name of a register's format");
        return NULL;
    }
    Array *left = &arrays[0], *right = &arrays[1], *out = &arrays[2];
    if (take(args[0], left, "f", 0) || take(args[1], right, "f", 0) || take(args[6], out, "f", 1)) {
        give_back(arrays, 3);
        return NULL;
    }
    size_t rows = left->count / depth;
    if (left->count != rows * depth || right->count != (size_t)depth * width || out->count != rows * width) {
        PyErr_SetString(PyExc_ValueError, "expected matrices whose sizes go together");
        give_back(arrays, 3);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    Rows taken;
    Block block;
    for (size_t row = 0; row < rows; row += ROWS)
        for (size_t k = 0; k < depth; k += DEPTH) {
            size_t places = least(DEPTH, depth - k), some = least(ROWS, rows - row);
            take_rows((const uint32_t *)left->data + row * depth + k, depth, some, places, &taken);
            for (size_t column = 0; column < width; column += COLUMNS) {
                size_t columns = least(COLUMNS, width - column);
                take_block((const uint32_t *)right->data + k * width + column, width, places, columns, &block);
                add_tile(&taken, some, places, &block, (uint32_t *)out->data + row * width + column, columns, width,
                         phases, REGISTERS[kind].limits, REGISTERS[kind].largest);
            }
        }
    Py_END_ALLOW_THREADS
    give_back(arrays, 3);
    Py_RETURN_NONE;
}

/* A number as often as a block wants it; none are written where they are there already. */
static const uint32_t *repeated(const uint32_t *number, uint32_t *block, size_t n)
{
    for (size_t i = 0; i < n; i++)
        block[i] = *number;
    return block;
}

/* multiply_add(a, b, c, out): a b + c as the vector unit computes it. An operand may be one number. */
static PyObject *multiply_add(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Array arrays[4] = {{.taken = 0}, {.taken = 0}, {.taken = 0}, {.taken = 0}};
    if (counted(count, 4))
        return NULL;
    Array *out = &arrays[3];
    int wrong = take(args[3], out, "f", 1);
    for (int i = 0; i < 3 && !wrong; i++)
        wrong = take(args[i], &arrays[i], "f", 0) || (arrays[i].count != 1 && same_length(&arrays[i], out));
    if (wrong) {
        give_back(arrays, 4);
        return NULL;
    }
    const uint32_t *a = arrays[0].data, *b = arrays[1].data, *c = arrays[2].data;
    size_t step_a = arrays[0].count != 1, step_b = arrays[1].count != 1, step_c = arrays[2].count != 1;
    Py_BEGIN_ALLOW_THREADS
    uint32_t blocks[4][BLOCK];
    for (size_t at = 0; at < out->count; at += BLOCK) {
        size_t n = least(BLOCK, out->count - at);
        uint32_t *result = (uint32_t *)out->data + at;
        const uint32_t *x = a + at * step_a, *y = b + at * step_b, *z = c + at * step_c;
        x = step_a ? x : repeated(x, blocks[0], at ? 0 : n);
        y = step_b ? y : repeated(y, blocks[1], at ? 0 : n);
        z = step_c ? z : repeated(z, blocks[2], at ? 0 : n);
        if (fused_block(x, y, z, result, blocks[3], n))
            for (size_t i = 0; i < n; i++)
                if (blocks[3][i])
                    result[i] = fused(x[i], y[i], z[i]);
    }
    Py_END_ALLOW_THREADS
    give_back(arrays, 4);
    Py_RETURN_NONE;
}

#define METHOD(NAME) {#NAME, (PyCFunction)(void (*)(void))NAME, METH_FASTCALL, NULL}
static PyMethodDef METHODS[] = {
    METHOD(has_tiny), METHOD(reaches), METHOD(changes), METHOD(keep),       METHOD(round_floats), METHOD(narrow),
    METHOD(widen),    METHOD(combine), METHOD(look_up), METHOD(odd_series), METHOD(normal),
    METHOD(add_products), METHOD(multiply_add), {NULL, NULL, 0, NULL},
};

static int named_source(PyObject *module) { return PyModule_AddStringConstant(module, "SOURCE", SOURCE); }

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)named_source}, {0, NULL}};
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_passes", .m_size = 0, .m_methods = METHODS, .m_slots = SLOTS};

PyMODINIT_FUNC PyInit__passes(void) { return PyModuleDef_Init(&MODULE); }
