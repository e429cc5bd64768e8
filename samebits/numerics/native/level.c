/* All kernels of the contract at one instruction-set level; compiled once for each.
 *
 * The heart is a register tile: some rows times a panel of 16 outputs, each operand a pair of int16
 * in a 32-bit lane. Two tiles exist, both exact (docs/numerics.md, "Exact sums in 32 bits"):
 * - digits: rows are split into 8-bit digits, so that 256 pair products fit an int32;
 * - carry: whole products are added modulo 2**32, and their high halves apart; together they
 *   determine the sum. Fewer instructions where there is no multiply-and-accumulate.
 * A panel is 16 outputs of a linear, 16 key tokens, or 16 dimensions of the values.
 *
 * Written in GCC vector extensions, so that only dot() knows the processor: the 64-byte form can be
 * compiled and tested anywhere. Elementwise loops are plain C; the compiler may vectorise them, and
 * may not contract or reassociate (CMakeLists.txt).
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "samebits.h"

#if SB_X86
#include <immintrin.h>
#endif

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef int8_t i8half __attribute__((vector_size(SB_VECTOR_BYTES / 2), aligned(1), may_alias));
typedef int16_t i16v __attribute__((vector_size(SB_VECTOR_BYTES)));
typedef int16_t i16u __attribute__((vector_size(SB_VECTOR_BYTES), aligned(2), may_alias));
typedef int32_t i32v __attribute__((vector_size(SB_VECTOR_BYTES)));
typedef int32_t i32u __attribute__((vector_size(SB_VECTOR_BYTES), aligned(4), may_alias));
typedef uint32_t u32v __attribute__((vector_size(SB_VECTOR_BYTES)));

#define LANES (SB_VECTOR_BYTES / 4)
#define PANEL_VECTORS (SB_PANEL / LANES) /* vectors across a panel of 16 outputs */

/* Which tile makes 16-bit linears. With VNNI a digit costs one instruction. */
#if SB_VNNI || SB_WIDE
#define CARRY_TILE 0
#else
#define CARRY_TILE 1
#endif
#define DIGITS16 (CARRY_TILE ? 1 : 2) /* lanes a quantised pair takes in a tile */

/* Rows of a tile: as many as leave no accumulator without a register. */
#if SB_VECTOR_BYTES == 64
#define TILE16 6
#define TILE8 8
#define TILE_Q 6
#define TILE_V 4
#elif SB_VECTOR_BYTES == 32
#define TILE16 2
#define TILE8 4
#define TILE_Q 3
#define TILE_V 2
#else
#define TILE16 1
#define TILE8 2
#define TILE_Q 1
#define TILE_V 1
#endif

/* Pairs that may be added into int32: 256 * 2 * 32767 * 128 < 2**31. With unsigned digits up to
 * 256, as for attention weights, half as many. */
#define PAIRS 256
#define PAIRS_V 128
/* Pairs that the carry tile may add: its high halves stay below 2**31, and so do the low ones. */
#define PAIRS_CARRY 32768

/* acc + a[2i]*b[2i] + a[2i+1]*b[2i+1] in each 32-bit lane. No saturation: |operands| <= 32767. */
INLINE i32v dot(i32v acc, i16v a, i16v b)
{
#if SB_VECTOR_BYTES == 64 && SB_VNNI
    return (i32v)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#elif SB_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    return acc + (i32v)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif SB_VECTOR_BYTES == 32 && defined(__AVX2__)
    return acc + (i32v)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif SB_VECTOR_BYTES == 16 && defined(__SSE2__)
    return acc + (i32v)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    i32v low = (((i32v)a << 16) >> 16) * (((i32v)b << 16) >> 16);
    return acc + low + ((i32v)a >> 16) * ((i32v)b >> 16);
#endif
}

/* ---- the register tile -------------------------------------------------------------------- */

/* sums[row][digit][16] = Σ over `pairs` pairs of digit(row) · panel.
 *
 * a: (pairs, rows, digits) int32, each a pair of int16. w: a panel row every `stride` elements, of
 * int16, or of int8 if narrow. pairs <= PAIRS. */
INLINE void tile(int rows, int digits, bool narrow, const void *w, size_t stride, const int32_t *a,
                 int64_t pairs, int32_t (*sums)[SB_PANEL])
{
    i32v acc[SB_MAX_TILE * 3][PANEL_VECTORS];
    UNROLL for (int i = 0; i < rows * digits; i++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) acc[i][v] = (i32v){0};
    for (int64_t p = 0; p < pairs; p++) {
        i16v panel[PANEL_VECTORS];
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            size_t at = (size_t)p * stride + (size_t)v * LANES * 2;
            if (narrow)
                panel[v] = __builtin_convertvector(*(const i8half *)((const int8_t *)w + at), i16v);
            else
                panel[v] = (i16v) * (const i16u *)((const int16_t *)w + at);
        }
        UNROLL for (int i = 0; i < rows * digits; i++) {
            i16v x = (i16v)((i32v){0} + a[i]);
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++) acc[i][v] = dot(acc[i][v], panel[v], x);
        }
        a += rows * digits;
    }
    UNROLL for (int i = 0; i < rows * digits; i++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
            *(i32u *)&sums[i][v * LANES] = acc[i][v];
}

/* sums[row] = {high, low} with Σ over `pairs` pairs of row · panel = high * 65536 + low, exactly.
 *
 * a: (pairs, rows) int32, each a pair of int16 up to 32767. w: int16 up to 16383, so that two pair
 * products p fit an int32. high = Σ (p >> 16). low is the rest, Σ (p mod 65536): it is known modulo
 * 2**32 as Σ p - 65536 * high, and it is below 2**31. */
INLINE void tile_carry(int rows, const int16_t *w, const int32_t *a, int64_t pairs,
                       int32_t (*sums)[SB_PANEL])
{
    u32v all[SB_MAX_TILE][PANEL_VECTORS];
    i32v high[SB_MAX_TILE][PANEL_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            all[r][v] = (u32v){0};
            high[r][v] = (i32v){0};
        }
    const i16u *panel = (const i16u *)(const void *)w;
    for (int64_t p = 0; p + 2 <= pairs; p += 2) {
        UNROLL for (int r = 0; r < rows; r++) {
            i16v x = (i16v)((i32v){0} + a[r]), y = (i16v)((i32v){0} + a[rows + r]);
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
                i32v product = dot(dot((i32v){0}, panel[v], x), panel[PANEL_VECTORS + v], y);
                all[r][v] += (u32v)product;
                high[r][v] += product >> 16;
            }
        }
        a += 2 * rows;
        panel += 2 * PANEL_VECTORS;
    }
    if (pairs % 2)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
                i32v product = dot((i32v){0}, panel[v], (i16v)((i32v){0} + a[r]));
                all[r][v] += (u32v)product;
                high[r][v] += product >> 16;
            }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            *(i32u *)&sums[2 * r][v * LANES] = high[r][v];
            *(i32u *)&sums[2 * r + 1][v * LANES] = (i32v)(all[r][v] - ((u32v)high[r][v] << 16));
        }
}

/* Calls tile with `rows` as a constant, so that its accumulators are registers. */
#define CASE(n, most, CALL)                                                                        \
    case n:                                                                                        \
        if (n > most)                                                                              \
            __builtin_unreachable();                                                               \
        CALL((n > most ? most : n));                                                               \
        break;
#define WITH_ROWS(most, rows, CALL)                                                                \
    switch (rows) {                                                                                \
        CASE(1, most, CALL)                                                                        \
        CASE(2, most, CALL)                                                                        \
        CASE(3, most, CALL)                                                                        \
        CASE(4, most, CALL)                                                                        \
        CASE(5, most, CALL)                                                                        \
        CASE(6, most, CALL)                                                                        \
        CASE(7, most, CALL)                                                                        \
        CASE(8, most, CALL)                                                                        \
    default:                                                                                       \
        __builtin_unreachable();                                                                   \
    }

static void tile16(int rows, const int16_t *w, const int32_t *a, int64_t pairs,
                   int32_t (*sums)[SB_PANEL])
{
#if CARRY_TILE
#define CALL(n) tile_carry(n, w, a, pairs, sums)
#else
#define CALL(n) tile(n, 2, false, w, 2 * SB_PANEL, a, pairs, sums)
#endif
    WITH_ROWS(TILE16, rows, CALL)
#undef CALL
}

static void tile_q(int rows, const int16_t *w, const int32_t *a, int64_t pairs,
                   int32_t (*sums)[SB_PANEL])
{
#define CALL(n) tile(n, 2, false, w, 2 * SB_PANEL, a, pairs, sums)
    WITH_ROWS(TILE_Q, rows, CALL)
#undef CALL
}

static void tile8(int rows, const int8_t *w, const int32_t *a, int64_t pairs,
                  int32_t (*sums)[SB_PANEL])
{
#define CALL(n) tile(n, 1, true, w, 2 * SB_PANEL, a, pairs, sums)
    WITH_ROWS(TILE8, rows, CALL)
#undef CALL
}

static void tile_v(int rows, const int16_t *w, size_t stride, const int32_t *a, int64_t pairs,
                   int32_t (*sums)[SB_PANEL])
{
#define CALL(n) tile(n, 3, false, w, stride, a, pairs, sums)
    WITH_ROWS(TILE_V, rows, CALL)
#undef CALL
}

/* ---- elementwise pieces -------------------------------------------------------------------- */

INLINE uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

/* 2**n, n in [-126, 127]. */
INLINE float pow2(int32_t n)
{
    uint32_t b = (uint32_t)(n + 127) << 23;
    float x;
    memcpy(&x, &b, 4);
    return x;
}

/* Round to the nearest even integer; |x| <= 2**22. */
INLINE float round_even(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/* The same for 0 <= x <= 2**24; from 2**23 on, every binary32 number is an integer. */
INLINE float round_even_wide(float x)
{
    float rounded = (x + 8388608.0f) - 8388608.0f;
    return x < 8388608.0f ? rounded : x;
}

/* reference.py, EXP2: 2**f on [-1/2, 1/2]. */
INLINE float exp2_polynomial(float f)
{
    float p = 0x1.41fb60p-13f;
    p = p * f + 0x1.5f3e38p-10f;
    p = p * f + 0x1.3b2d4ep-7f;
    p = p * f + 0x1.c6aee8p-5f;
    p = p * f + 0x1.ebfbdcp-3f;
    p = p * f + 0x1.62e430p-1f;
    return p * f + 1.0f;
}

/* The largest magnitude of a row as bits, which order as the magnitudes do. */
INLINE uint32_t largest_bits(const float *x, int64_t k)
{
    const uint32_t *b = (const uint32_t *)(const void *)x;
    uint32_t most = 0;
    for (int64_t i = 0; i < k; i++) {
        uint32_t m = b[i] & 0x7fffffffu;
        most = m > most ? m : most;
    }
    return most;
}

/* The largest of finite numbers: as integers that order as the numbers do, but for the sign of a
 * zero, which no caller can see. */
INLINE float largest_of(const float *x, int64_t k)
{
    const int32_t *b = (const int32_t *)(const void *)x;
    int32_t most = INT32_MIN;
    for (int64_t i = 0; i < k; i++) {
        int32_t ordered = b[i] ^ ((b[i] >> 31) & 0x7fffffff);
        most = ordered > most ? ordered : most;
    }
    most ^= (most >> 31) & 0x7fffffff;
    float largest;
    memcpy(&largest, &most, 4);
    return largest;
}

#define INFINITE 0x7f800000u
#define SMALLEST ((uint32_t)(127 - 64) << 23)
#define ZERO_EXPONENT (-64)

/* The exponent of a row, from its largest magnitude. */
INLINE int32_t exponent_of(uint32_t largest)
{
    return largest < SMALLEST ? ZERO_EXPONENT : (int32_t)(largest >> 23) - 126;
}

INLINE int32_t quantise_one(float x, float unit)
{
    float r = round_even(x * unit);
    r = r > 32767.0f ? 32767.0f : r;
    r = r < -32767.0f ? -32767.0f : r;
    return (int32_t)r;
}

/* 2**(15 - e), or 0 for a row that is zero. */
INLINE float unit_of(int32_t e)
{
    return e == ZERO_EXPONENT ? 0.0f : pow2(15 - e);
}

static int quantise_row(const float *x, int64_t k, int16_t *q, int32_t *e)
{
    uint32_t largest = largest_bits(x, k);
    *e = exponent_of(largest);
    if (largest >= INFINITE)
        return SB_NOT_FINITE;
    float unit = unit_of(*e);
    for (int64_t i = 0; i < k; i++)
        q[i] = (int16_t)quantise_one(x[i], unit);
    return SB_OK;
}

static int quantise_rows(const float *x, int64_t rows, int64_t k, int16_t *q, int32_t *e)
{
    int status = SB_OK;
    for (int64_t r = 0; r < rows; r++)
        status |= quantise_row(x + r * k, k, q + r * k, e + r);
    return status;
}

static int quantise_weight(const float *w, int64_t rows, int64_t k, int bits, void *q, float *s)
{
    float limit = bits == 16 ? 16383.0f : 127.0f;
    for (int64_t r = 0; r < rows; r++, w += k) {
        uint32_t most = largest_bits(w, k);
        if (most >= INFINITE)
            return SB_NOT_FINITE;
        float largest;
        memcpy(&largest, &most, 4);
        s[r] = most < SMALLEST ? 0.0f : largest / limit;
        float unit = most < SMALLEST ? INFINITY : s[r]; /* w / infinity is zero */
        for (int64_t i = 0; i < k; i++) {
            float v = round_even(w[i] / unit);
            v = v > limit ? limit : v;
            v = v < -limit ? -limit : v;
            if (bits == 16)
                ((int16_t *)q)[r * k + i] = (int16_t)v;
            else
                ((int8_t *)q)[r * k + i] = (int8_t)v;
        }
    }
    return SB_OK;
}

/* ---- linear -------------------------------------------------------------------------------- */

/* q = 256 * high + low with low in [-128, 127], so |high| <= 128. */
INLINE int32_t low_digit(int32_t q)
{
    return ((q + 128) & 255) - 128;
}

INLINE int64_t half_up(int64_t k)
{
    return (k + 1) / 2;
}

/* Copy int16 pairs to every `step`-th int32 of a tile. */
INLINE void put_pairs(int32_t *tile, int64_t step, const int16_t *q, int64_t pairs)
{
    for (int64_t p = 0; p < pairs; p++)
        memcpy(tile + p * step, q + 2 * p, sizeof *tile);
}

/* Inputs that are quantised at a time; a multiple of 2. */
#define STRIP 512

/* Lay a quantised strip out as two digits a pair, in a tile of `rows` rows. */
static void put_digits(int32_t *tile, int rows, const int16_t *q, int64_t pairs)
{
    int16_t high[STRIP], low[STRIP];
    for (int64_t i = 0; i < 2 * pairs; i++) {
        int32_t digit = low_digit(q[i]);
        low[i] = (int16_t)digit;
        high[i] = (int16_t)((q[i] - digit) >> 8);
    }
    put_pairs(tile, rows * 2, high, pairs);
    put_pairs(tile + 1, rows * 2, low, pairs);
}

/* Quantise one row into its place in a tile of `rows` rows. */
static int pack_row(const float *x, int64_t k, int digits, int rows, int32_t *tile, int32_t *e)
{
    uint32_t largest = largest_bits(x, k);
    if (largest >= INFINITE)
        return SB_NOT_FINITE;
    *e = exponent_of(largest);
    float unit = unit_of(*e);
    for (int64_t first = 0; first < k; first += STRIP) {
        int64_t n = k - first < STRIP ? k - first : STRIP;
        int16_t q[STRIP];
        for (int64_t i = 0; i < n; i++)
            q[i] = (int16_t)quantise_one(x[first + i], unit);
        if (n % 2)
            q[n] = 0;
        int32_t *at = tile + first / 2 * rows * digits;
        if (digits == 1)
            put_pairs(at, rows, q, half_up(n));
        else
            put_digits(at, rows, q, half_up(n));
    }
    return SB_OK;
}

static int pack_rows(const float *x, int64_t rows, int64_t k, int bits, int32_t *tiles, int32_t *e)
{
    int most = bits == 16 ? TILE16 : TILE8, digits = bits == 16 ? DIGITS16 : 1;
    int status = SB_OK;
    for (int64_t r = 0; r < rows; r += most) {
        int n = (int)(rows - r < most ? rows - r : most);
        for (int i = 0; i < n; i++)
            status |= pack_row(x + (r + i) * k, k, digits, n, tiles + i * digits, e + r + i);
        tiles += half_up(k) * n * digits;
    }
    return status;
}

/* Which operand a panel is: that decides the tile, and how its sums are put together. */
enum operand { WEIGHT16, WEIGHT8, KEY };

/* Exact sums of one panel for the rows of a tile, as doubles below 2**53. */
INLINE void sum_panel(enum operand kind, int rows, const void *panel, const int32_t *a,
                      int64_t pairs, double (*acc)[SB_PANEL])
{
    int32_t sums[SB_MAX_TILE * 2][SB_PANEL];
    bool has_carry = kind == WEIGHT16 && CARRY_TILE;
    int64_t most = has_carry ? PAIRS_CARRY : PAIRS, done = 0;
    do {
        int64_t n = pairs - done < most ? pairs - done : most;
        if (kind == WEIGHT8)
            tile8(rows, (const int8_t *)panel + done * 2 * SB_PANEL, a + done * rows, n, sums);
        else if (kind == KEY)
            tile_q(rows, (const int16_t *)panel + done * 2 * SB_PANEL, a + done * rows * 2, n, sums);
        else
            tile16(rows, (const int16_t *)panel + done * 2 * SB_PANEL, a + done * rows * DIGITS16, n,
                   sums);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < SB_PANEL; j++) {
                double part = kind == WEIGHT8 ? (double)sums[r][j]
                                              : (double)sums[2 * r][j] * (has_carry ? 65536.0 : 256.0) +
                                                    (double)sums[2 * r + 1][j];
                acc[r][j] = done == 0 ? part : acc[r][j] + part;
            }
        done += n;
    } while (done < pairs);
}

/* y = fl(fl(acc) * s) * 2**(e - 15), + bias, + residual. */
INLINE void finish(const double *acc, const sb_weight *w, int64_t first, int n, float unit,
                   const float *residual, float *y)
{
    const float *scale = w->scale + first;
    for (int j = 0; j < n; j++)
        y[j] = (float)acc[j] * scale[j] * unit;
    if (w->bias != NULL)
        for (int j = 0; j < n; j++)
            y[j] = y[j] + w->bias[first + j];
    if (residual != NULL)
        for (int j = 0; j < n; j++)
            y[j] = y[j] + residual[j];
}

/* Rows whose tiles stay in the second-level cache while several panels pass. */
#define BLOCK_ROWS 48

INLINE void linear_panel(bool narrow, const sb_weight *w, const int32_t *tiles, const int32_t *e,
                         int64_t first, int64_t rows, int64_t panel, const float *residual, float *y)
{
    int most = narrow ? TILE8 : TILE16;
    int64_t pairs = half_up(w->num_inputs), n = w->num_outputs;
    const char *packed = (const char *)w->packed + panel * pairs * 2 * SB_PANEL * (narrow ? 1 : 2);
    int64_t out = panel * SB_PANEL;
    int width = (int)(n - out < SB_PANEL ? n - out : SB_PANEL);
    double acc[SB_MAX_TILE][SB_PANEL];
    for (int64_t r = first; r < first + rows; r += most) {
        int tile_rows = (int)(first + rows - r < most ? first + rows - r : most);
        sum_panel(narrow ? WEIGHT8 : WEIGHT16, tile_rows, packed,
                  tiles + r * pairs * (narrow ? 1 : DIGITS16), pairs, acc);
        for (int i = 0; i < tile_rows; i++) {
            int64_t at = (r + i) * n + out;
            finish(acc[i], w, out, width, pow2(e[r + i] - 15), residual ? residual + at : NULL,
                   y + at);
        }
    }
}

static void linear(const sb_weight *w, const int32_t *tiles, const int32_t *e, int64_t rows,
                   int64_t first_panel, int64_t last_panel, const float *residual, float *y)
{
    int64_t block = BLOCK_ROWS; /* a multiple of every tile height */
    for (int64_t r = 0; r < rows; r += block) {
        int64_t n = rows - r < block ? rows - r : block;
        for (int64_t p = first_panel; p < last_panel; p++) {
            if (w->bits == 8)
                linear_panel(true, w, tiles, e, r, n, p, residual, y);
            else
                linear_panel(false, w, tiles, e, r, n, p, residual, y);
        }
    }
}

/* ---- norms, rotation, cache ----------------------------------------------------------------- */

static int norm_row(const float *x, const float *w, double eps, int64_t k, float *y)
{
    uint32_t largest = largest_bits(x, k);
    if (largest >= INFINITE)
        return SB_NOT_FINITE;
    int32_t e = exponent_of(largest);
    float unit = unit_of(e), value = pow2(e - 15);
    int64_t squares = 0;
    for (int64_t i = 0; i < k; i++) {
        int32_t q = quantise_one(x[i], unit);
        squares += (int64_t)(q * q);
    }
    float mean = (float)squares * value * value / (float)k;
    float factor = 1.0f / sqrtf(mean + (float)eps);
    for (int64_t i = 0; i < k; i++)
        y[i] = x[i] * factor * w[i];
    return bits_of(mean) >= INFINITE ? SB_NOT_FINITE : SB_OK;
}

static int rms_norm(const float *x, const float *w, double eps, int64_t rows, int64_t k,
                    float *y)
{
    int status = SB_OK;
    for (int64_t r = 0; r < rows; r++)
        status |= norm_row(x + r * k, w, eps, k, y + r * k);
    return status;
}

/* Rotate the halves of a head. */
INLINE void rotate(const float *x, const float *cos, const float *sin, int64_t half, float *y)
{
    const float *a = x, *b = x + half;
    for (int64_t i = 0; i < half; i++) {
        float first = a[i] * cos[i] - b[i] * sin[i];
        float second = b[i] * cos[i] + a[i] * sin[i];
        y[i] = first;
        y[half + i] = second;
    }
}

/* Widest head that kernels take; the loader refuses wider ones. */
#define MAX_HEAD 1024

static int append_key(const float *k, int64_t d, int64_t page, int64_t offset, int64_t g,
                      const sb_shape *shape, const sb_cache *c)
{
    int16_t q[MAX_HEAD];
    int32_t e;
    int status = quantise_row(k, d, q, &e);
    int64_t head = page * shape->num_kv_heads + g, p = c->page_tokens;
    int16_t *at = c->keys + head * p * d + offset / SB_PANEL * d * SB_PANEL + offset % SB_PANEL * 2;
    for (int64_t i = 0; i < d; i += 2) {
        at[i * SB_PANEL] = q[i];
        at[i * SB_PANEL + 1] = q[i + 1];
    }
    c->key_exponents[head * p + offset] = (int16_t)e;
    return status;
}

static int append_value(const float *v, int64_t d, int64_t page, int64_t offset, int64_t g,
                        const sb_shape *shape, const sb_cache *c)
{
    int16_t q[MAX_HEAD];
    int32_t e;
    int status = quantise_row(v, d, q, &e);
    int64_t head = page * shape->num_kv_heads + g, p = c->page_tokens;
    int16_t *at = c->values + head * p * d + offset / 2 * d * 2 + offset % 2;
    for (int64_t i = 0; i < d; i++)
        at[2 * i] = q[i];
    c->value_exponents[head * p + offset] = (int16_t)e;
    return status;
}

static int rope_append(const float *qkv, const sb_shape *shape, const sb_head_norms *norms,
                       const float *cos, const float *sin, const sb_rows *rows,
                       const sb_cache *cache, int64_t first, int64_t last, float *q)
{
    int64_t d = shape->head_dim, h = shape->num_heads, g = shape->num_kv_heads;
    float normed[MAX_HEAD], rotated[MAX_HEAD];
    int status = SB_OK;
    for (int64_t r = first; r < last; r++) {
        const float *row = qkv + r * (h + 2 * g) * d;
        const float *c = cos + rows->positions[r] * (d / 2), *s = sin + rows->positions[r] * (d / 2);
        int64_t page = rows->slots[r] / cache->page_tokens;
        int64_t offset = rows->slots[r] % cache->page_tokens;
        for (int64_t i = 0; i < h + g; i++) {
            const float *x = row + i * d;
            if (norms != NULL) {
                status |= norm_row(x, i < h ? norms->query : norms->key, norms->eps, d, normed);
                x = normed;
            }
            rotate(x, c, s, d / 2, i < h ? q + (r * h + i) * d : rotated);
            if (i >= h)
                status |= append_key(rotated, d, page, offset, i - h, shape, cache);
        }
        for (int64_t i = 0; i < g; i++)
            status |= append_value(row + (h + g + i) * d, d, page, offset, i, shape, cache);
    }
    return status;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* The query rows of one task and the stretch of tokens they look at. */
typedef struct {
    const sb_shape *shape;
    const sb_cache *cache;
    const int32_t *pages;  /* of the sequence */
    float score_factor;    /* fl(scale * log2 e) */
    int64_t kv_head;
    int count;             /* query rows: rows times heads of the group */
    int64_t first, last;   /* tokens, both multiples of 16 */
    int64_t from[SB_MAX_QUERIES], to[SB_MAX_QUERIES]; /* visible tokens of each query */
    int32_t exponent[SB_MAX_QUERIES];
    int32_t top[SB_MAX_QUERIES];    /* largest value exponent seen */
    int64_t total[SB_MAX_QUERIES];  /* sum of weights */
    float *scores;   /* (count, last - first) */
    int32_t *digits; /* tiles of (pairs, rows, 3) */
    int32_t *queries; /* tiles of (D/2, rows, 2) */
    int64_t *sums;   /* (count, D) */
} attention_state;

INLINE int64_t head_at(const attention_state *a, int64_t token)
{
    int64_t p = a->cache->page_tokens;
    return ((int64_t)a->pages[token / p] * a->shape->num_kv_heads + a->kv_head) * p;
}

/* Scores of 16 tokens from t for all queries. */
static void score_panel(attention_state *a, int64_t t)
{
    int64_t d = a->shape->head_dim, offset = t % a->cache->page_tokens, head = head_at(a, t);
    const int16_t *panel = a->cache->keys + (head + offset) * d;
    const int16_t *exponents = a->cache->key_exponents + head + offset;
    float unit[SB_PANEL];
    for (int j = 0; j < SB_PANEL; j++)
        unit[j] = pow2(exponents[j] - 15);
    double acc[SB_MAX_TILE][SB_PANEL];
    for (int m = 0; m < a->count; m += TILE_Q) {
        int n = a->count - m < TILE_Q ? a->count - m : TILE_Q;
        sum_panel(KEY, n, panel, a->queries + m * d, d / 2, acc);
        for (int i = 0; i < n; i++) {
            float *out = a->scores + (m + i) * (a->last - a->first) + (t - a->first);
            float query_unit = pow2(a->exponent[m + i] - 15);
            for (int j = 0; j < SB_PANEL; j++)
                out[j] = (float)acc[i][j] * query_unit * unit[j] * a->score_factor;
        }
    }
}

/* The largest value exponent that query m sees. */
static int32_t top_exponent(const attention_state *a, int m)
{
    int64_t p = a->cache->page_tokens;
    int32_t top = ZERO_EXPONENT;
    for (int64_t t = a->from[m]; t < a->to[m];) {
        int64_t stop = (t / p + 1) * p < a->to[m] ? (t / p + 1) * p : a->to[m];
        const int16_t *exponents = a->cache->value_exponents + head_at(a, t) + t % p;
        for (int64_t i = 0; i < stop - t; i++)
            top = exponents[i] > top ? exponents[i] : top;
        t = stop;
    }
    return top;
}

/* Integer weights of query m from its scores, in place; as binary32, which holds them exactly. */
static int weigh(attention_state *a, int m)
{
    int64_t stretch = a->last - a->first;
    float *s = a->scores + m * stretch;
    int64_t from = a->from[m] - a->first, to = a->to[m] - a->first;
    if (largest_bits(s + from, to - from) >= INFINITE)
        return SB_NOT_FINITE;
    float most = largest_of(s + from, to - from);
    for (int64_t t = from; t < to; t++) {
        float x = s[t] - most;
        float clamped = x < -30.0f ? -30.0f : x;
        float n = round_even(clamped);
        float weight = exp2_polynomial(clamped - n) * pow2((int32_t)n + 24);
        s[t] = x < -30.0f ? 0.0f : round_even_wide(weight);
    }
    int64_t total = 0;
    for (int64_t t = from; t < to; t++)
        total += (int32_t)s[t];
    memset(s, 0, (size_t)from * sizeof *s);
    memset(s + to, 0, (size_t)(stretch - to) * sizeof *s);
    a->top[m] = top_exponent(a, m);
    a->total[m] = total;
    return SB_OK;
}

/* Align the weights to the top exponent and lay them out as three digits, in query m's tile. */
static void lay_out(attention_state *a, int m)
{
    int64_t stretch = a->last - a->first, pairs = stretch / 2;
    const float *weights = a->scores + m * stretch;
    int tile_first = m / TILE_V * TILE_V;
    int rows = a->count - tile_first < TILE_V ? a->count - tile_first : TILE_V;
    int32_t *out = a->digits + tile_first * pairs * 3 + (m - tile_first) * 3;
    int64_t p = a->cache->page_tokens;
    for (int64_t t = 0; t < stretch; t += SB_PANEL) {
        int64_t token = a->first + t;
        const int16_t *exponents = a->cache->value_exponents + head_at(a, token) + token % p;
        int16_t digits[3][SB_PANEL];
        for (int j = 0; j < SB_PANEL; j++) {
            int32_t shift = a->top[m] - exponents[j];
            shift = shift < 0 ? 0 : shift; /* below zero only where nothing is seen */
            shift = shift > 64 ? 64 : shift;
            int32_t aligned = (int32_t)round_even_wide(weights[t + j] * pow2(-shift));
            digits[0][j] = (int16_t)(aligned >> 16);
            digits[1][j] = (int16_t)(aligned >> 8 & 255);
            digits[2][j] = (int16_t)(aligned & 255);
        }
        for (int c = 0; c < 3; c++)
            for (int j = 0; j < SB_PANEL / 2; j++)
                memcpy(out + (t / 2 + j) * rows * 3 + c, &digits[c][2 * j], 4);
    }
}

/* Add 16 head dimensions of a stretch of values to the sums of a tile of queries. */
INLINE void add_values(const int16_t *values, int64_t d, int rows, const int32_t *digits,
                       int64_t pairs, int64_t *sums)
{
    int32_t part[SB_MAX_TILE * 3][SB_PANEL];
    tile_v(rows, values, (size_t)d * 2, digits, pairs, part);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < SB_PANEL; j++)
            sums[r * d + j] += (int64_t)part[3 * r][j] * 65536 + (int64_t)part[3 * r + 1][j] * 256 +
                               part[3 * r + 2][j];
}

/* The last dimensions of a head whose width is not a multiple of 16. */
static void add_last_values(const int16_t *values, int64_t d, int64_t from, int rows,
                            const int32_t *digits, int64_t pairs, int64_t *sums)
{
    for (int64_t p = 0; p < pairs; p++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < 3; c++) {
                int32_t two = digits[(p * rows + r) * 3 + c];
                int64_t x = (int16_t)two, y = two >> 16, unit = c == 0 ? 65536 : c == 1 ? 256 : 1;
                for (int64_t i = from; i < d; i++) {
                    const int16_t *v = values + p * d * 2 + i * 2;
                    sums[r * d + i] += (x * v[0] + y * v[1]) * unit;
                }
            }
}

static void sum_values(attention_state *a)
{
    int64_t d = a->shape->head_dim, p = a->cache->page_tokens, whole = d / SB_PANEL * SB_PANEL;
    int64_t all_pairs = (a->last - a->first) / 2;
    memset(a->sums, 0, (size_t)(a->count * d) * sizeof *a->sums);
    for (int64_t t = a->first; t < a->last;) {
        int64_t stop = (t / p + 1) * p < a->last ? (t / p + 1) * p : a->last;
        stop = stop - t > 2 * PAIRS_V ? t + 2 * PAIRS_V : stop;
        const int16_t *values = a->cache->values + (head_at(a, t) + t % p) * d;
        int64_t pairs = (stop - t) / 2, done = (t - a->first) / 2;
        for (int m = 0; m < a->count; m += TILE_V) {
            int rows = a->count - m < TILE_V ? a->count - m : TILE_V;
            const int32_t *digits = a->digits + m * all_pairs * 3 + done * rows * 3;
            for (int64_t i = 0; i < whole; i += SB_PANEL)
                add_values(values + i * 2, d, rows, digits, pairs, a->sums + m * d + i);
            if (whole < d)
                add_last_values(values, d, whole, rows, digits, pairs, a->sums + m * d);
        }
        t = stop;
    }
}

/* Quantise the queries and note what each may see. */
static int load_queries(attention_state *a, const float *q, const sb_rows *rows,
                        const sb_attention_task *task)
{
    int64_t d = a->shape->head_dim, group = a->shape->num_heads / a->shape->num_kv_heads;
    int status = SB_OK;
    a->first = INT64_MAX;
    a->last = 0;
    for (int m = 0; m < a->count; m++) {
        int64_t query = task->first_query + m;
        int64_t r = query / group, h = a->kv_head * group + query % group;
        const float *x = q + (r * a->shape->num_heads + h) * d;
        int tile_first = m / TILE_Q * TILE_Q;
        int n = a->count - tile_first < TILE_Q ? a->count - tile_first : TILE_Q;
        int32_t *tile = a->queries + tile_first * d + (m - tile_first) * 2;
        status |= pack_row(x, d, 2, n, tile, &a->exponent[m]);
        int64_t to = (int64_t)rows->positions[r] + 1, window = a->shape->window_tokens;
        int64_t from = window > 0 && to > window ? to - window : 0;
        a->from[m] = from;
        a->to[m] = to;
        a->first = from < a->first ? from : a->first;
        a->last = to > a->last ? to : a->last;
    }
    a->first = a->first / SB_PANEL * SB_PANEL;
    a->last = (a->last + SB_PANEL - 1) / SB_PANEL * SB_PANEL;
    return status;
}

INLINE void *carve(char **at, size_t bytes)
{
    char *start = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return start;
}

static int attention(const float *q, const sb_shape *shape, const sb_rows *rows,
                     const sb_cache *cache, const sb_attention_task *task, void *scratch,
                     float *out)
{
    int64_t d = shape->head_dim, group = shape->num_heads / shape->num_kv_heads;
    attention_state a = {.shape = shape, .cache = cache, .kv_head = task->kv_head};
    a.pages = rows->pages + task->sequence * rows->max_pages;
    a.count = (int)(task->last_query - task->first_query);
    a.score_factor = (float)(shape->scale * 1.4426950408889634);
    char *at = scratch;
    a.queries = carve(&at, (size_t)(a.count * d) * sizeof(int32_t));
    int status = load_queries(&a, q, rows, task);
    int64_t stretch = a.last - a.first;
    a.scores = carve(&at, (size_t)(a.count * stretch) * sizeof(float));
    a.digits = carve(&at, (size_t)(a.count * stretch / 2 * 3) * sizeof(int32_t));
    a.sums = carve(&at, (size_t)(a.count * d) * sizeof(int64_t));
    for (int64_t t = a.first; t < a.last; t += SB_PANEL)
        score_panel(&a, t);
    for (int m = 0; m < a.count; m++) {
        status |= weigh(&a, m);
        if (status != SB_OK)
            return status;
        lay_out(&a, m);
    }
    sum_values(&a);
    for (int m = 0; m < a.count; m++) {
        int64_t query = task->first_query + m;
        int64_t r = query / group, h = a.kv_head * group + query % group;
        float unit = pow2(a.top[m] - 15), total = (float)a.total[m];
        for (int64_t i = 0; i < d; i++)
            out[(r * shape->num_heads + h) * d + i] = (float)a.sums[m * d + i] * unit / total;
    }
    return status;
}

/* ---- gates, sampling ------------------------------------------------------------------------ */

INLINE float sigmoid_product(float g, float t)
{
    t = t > 126.0f ? 126.0f : t;
    t = t < -126.0f ? -126.0f : t;
    float n = round_even(t);
    return g / (1.0f + exp2_polynomial(t - n) * pow2((int32_t)n));
}

static void gate(const float *gu, int gelu, int64_t rows, int64_t f, float *y)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *g = gu + r * 2 * f, *u = g + f;
        float *out = y + r * f;
        if (gelu)
            for (int64_t i = 0; i < f; i++) {
                float t = g[i] * (0.044715f * (g[i] * g[i]) + 1.0f) * -2.302208198144325f;
                out[i] = sigmoid_product(g[i], t) * u[i];
            }
        else
            for (int64_t i = 0; i < f; i++)
                out[i] = sigmoid_product(g[i], g[i] * -1.4426950408889634f) * u[i];
    }
}

static int argmax(const float *z, int64_t v, int64_t *id)
{
    if (largest_bits(z, v) >= INFINITE)
        return SB_NOT_FINITE;
    float most = largest_of(z, v);
    int64_t i = 0;
    while (z[i] != most)
        i++;
    *id = i;
    return SB_OK;
}

/* rint(2**((z - most) * factor) * 2**40); 0 below 2**-60. */
INLINE int64_t token_weight(float z, float most, float factor)
{
    float x = (z - most) * factor;
    float clamped = x < -60.0f ? -60.0f : x;
    float n = round_even(clamped);
    double exact = (double)(exp2_polynomial(clamped - n) * pow2((int32_t)n + 40));
    return x < -60.0f ? 0 : (int64_t)((exact + 0x1.8p52) - 0x1.8p52);
}

static int softmax_weights(const float *z, float factor, int64_t v, int64_t *w)
{
    if (largest_bits(z, v) >= INFINITE)
        return SB_NOT_FINITE;
    float most = largest_of(z, v);
    for (int64_t i = 0; i < v; i++)
        w[i] = token_weight(z[i], most, factor);
    return SB_OK;
}

/* reference.py, natural_log. */
static double natural_log(double x)
{
    int exponent;
    double mantissa = frexp(x, &exponent);
    if (mantissa < 0.7071067811865476) {
        mantissa = mantissa * 2.0;
        exponent -= 1;
    }
    double s = (mantissa - 1.0) / (mantissa + 1.0), total = 0.0;
    for (int odd = 21; odd > 0; odd -= 2)
        total = total * (s * s) + 1.0 / (double)odd;
    return (double)exponent * 0.6931471805599453 + 2.0 * s * total;
}

static int log_probabilities(const float *z, int64_t v, float *out)
{
    if (largest_bits(z, v) >= INFINITE)
        return SB_NOT_FINITE;
    float most = largest_of(z, v);
    int64_t sum = 0;
    for (int64_t i = 0; i < v; i++)
        sum += token_weight(z[i], most, 1.4426950408889634f);
    double normaliser = natural_log((double)sum) - natural_log(0x1p40);
    for (int64_t i = 0; i < v; i++)
        out[i] = (float)((double)(z[i] - most) - normaliser);
    return SB_OK;
}

const sb_level CONCAT(sb_level_, SB_LEVEL) = {
    .name = TEXT(SB_LEVEL),
    .tile16 = TILE16,
    .tile8 = TILE8,
    .digits16 = DIGITS16,
    .quantise_rows = quantise_rows,
    .quantise_weight = quantise_weight,
    .pack_rows = pack_rows,
    .linear = linear,
    .rms_norm = rms_norm,
    .rope_append = rope_append,
    .attention = attention,
    .gate = gate,
    .argmax = argmax,
    .softmax_weights = softmax_weights,
    .log_probabilities = log_probabilities,
};
