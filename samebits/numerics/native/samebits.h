/* The C form of docs/numerics.md: what a level provides, and the arguments of one call.
 *
 * Everything reduced is an integer; everything else is elementwise binary32, compiled without
 * contraction or reassociation. Layouts are those of numerics/values.py. Letters: R rows,
 * K reduced width, N outputs, D head width, H heads, G key-value heads, P tokens a page.
 */
#ifndef SAMEBITS_H
#define SAMEBITS_H

#include <fenv.h>
#include <stddef.h>
#include <stdint.h>

#define SB_PANEL 16
#define SB_MAX_TILE 8 /* rows a register tile may have, over all levels */

enum sb_status {
    SB_OK = 0,
    SB_NOT_FINITE = 1,  /* NaN or infinity where a number is needed */
    SB_NO_MEMORY = 2,
};

/* A packed weight: numerics/values.py, Weight. */
typedef struct {
    const void *packed; /* (ceil(N/16), ceil(K/2), 16, 2), int16 or int8 */
    const float *scale; /* (16 * ceil(N/16),) */
    const float *bias;  /* (N,) or NULL */
    int64_t num_outputs;
    int64_t num_inputs;
    int64_t bits; /* 16 or 8 */
} sb_weight;

/* One layer's cache: numerics/values.py, LayerCache. */
typedef struct {
    int16_t *keys;
    int16_t *values;
    int16_t *key_exponents;
    int16_t *value_exponents;
    int64_t page_tokens;
} sb_cache;

/* numerics/values.py, AttentionShape. */
typedef struct {
    int64_t num_heads;
    int64_t num_kv_heads;
    int64_t head_dim;
    int64_t window_tokens;
    double scale; /* rounded by the kernel, not in the caller's modes */
} sb_shape;

/* numerics/values.py, Rows. */
typedef struct {
    const int32_t *positions;
    const int64_t *slots;
    const int32_t *starts;
    const int32_t *pages;
    int64_t num_sequences;
    int64_t max_pages; /* row length of pages */
} sb_rows;

typedef struct {
    const float *query;
    const float *key;
    double eps; /* rounded by the kernel, not in the caller's modes */
} sb_head_norms;

/* A piece of attention: some queries of one sequence on one key-value head. Query i is head
 * i mod group of the group, in row i div group of the step. */
typedef struct {
    int32_t sequence;
    int32_t kv_head;
    int64_t first_query;
    int64_t last_query;
} sb_attention_task;

/* One operation of a recorded walk through a decoder (program.py). Buffers are numbered; buffer 0
 * holds the walk's input. */
enum sb_kind { SB_LINEAR, SB_NORM, SB_ROPE, SB_ATTENTION, SB_GATE, SB_ADD };
typedef struct {
    int64_t kind;
    int64_t input;
    int64_t output;
    int64_t other; /* buffer of a residual or second addend; -1: none */
    int64_t width; /* floats a row of the output has */
    int64_t gelu;
    const sb_weight *weight;
    const float *norm;
    const sb_shape *shape;
    const sb_head_norms *head_norms;
    const float *cos;
    const float *sin;
    const sb_cache *cache;
    double eps; /* rounded by the kernel, not in the caller's modes */
} sb_op;

/* What one instruction-set level provides. Functions work on one thread, on a range. */
typedef struct {
    const char *name;
    int tile16; /* rows of a register tile for 16-bit weights */
    int tile8;  /* and for 8-bit weights */
    int digits16; /* int32 lanes a pair of inputs takes in a tile for 16-bit weights */
    int (*quantise_rows)(const float *x, int64_t rows, int64_t k, int16_t *q, int32_t *e);
    int (*quantise_weight)(const float *w, int64_t rows, int64_t k, int bits, void *q, float *s);
    /* Quantise rows and lay them out for the tiles; a tile is (K/2, rows of tile, digits) pairs. */
    int (*pack_rows)(const float *x, int64_t rows, int64_t k, int bits, int32_t *tiles, int32_t *e);
    void (*linear)(const sb_weight *w, const int32_t *tiles, const int32_t *e, int64_t rows,
                   int64_t first_panel, int64_t last_panel, const float *residual, float *y);
    int (*rms_norm)(const float *x, const float *w, double eps, int64_t rows, int64_t k, float *y);
    int (*rope_append)(const float *qkv, const sb_shape *shape, const sb_head_norms *norms,
                       const float *cos, const float *sin, const sb_rows *rows,
                       const sb_cache *cache, int64_t first, int64_t last, float *q);
    int (*attention)(const float *q, const sb_shape *shape, const sb_rows *rows,
                     const sb_cache *cache, const sb_attention_task *task, void *scratch,
                     float *out);
    void (*gate)(const float *gu, int gelu, int64_t rows, int64_t f, float *y);
    int (*argmax)(const float *z, int64_t v, int64_t *id);
    int (*softmax_weights)(const float *z, float factor, int64_t v, int64_t *w);
    int (*log_probabilities)(const float *z, int64_t v, float *out);
} sb_level;

/* Queries that one attention task may have. */
#define SB_MAX_QUERIES 16

/* Scratch bytes of one attention task over `tokens` cached tokens. */
static inline size_t sb_attention_scratch(int64_t tokens, int64_t head_dim)
{
    size_t padded = (size_t)(tokens + 2 * SB_PANEL + 15) & ~(size_t)15;
    size_t scores = padded * SB_MAX_QUERIES * sizeof(float);
    size_t digits = padded / 2 * SB_MAX_QUERIES * 3 * sizeof(int32_t);
    size_t queries = (size_t)head_dim / 2 * SB_MAX_QUERIES * 2 * sizeof(int32_t);
    size_t sums = (size_t)(head_dim + SB_PANEL) * SB_MAX_QUERIES * sizeof(int64_t);
    return scores + digits + queries + sums + 4096;
}

/* Floating-point modes of a thread: the contract's are the defaults, and a caller's, or those that a
 * new thread inherits, may be others. */
#if SB_X86
#include <immintrin.h>
typedef unsigned sb_modes;
static inline sb_modes sb_default_modes(void)
{
    sb_modes caller = _mm_getcsr();
    if ((caller & 0xffc0u) != 0x1f80u)
        _mm_setcsr(0x1f80u);
    return caller;
}
static inline void sb_restore_modes(sb_modes caller)
{
    if ((caller & 0xffc0u) != 0x1f80u)
        _mm_setcsr(caller);
}
#else
typedef fenv_t sb_modes;
static inline sb_modes sb_default_modes(void)
{
    sb_modes caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    return caller;
}
static inline void sb_restore_modes(sb_modes caller)
{
    fesetenv(&caller);
}
#endif

/* pool.c: threads that are really there. */
typedef struct sb_pool sb_pool;
typedef void (*sb_work)(void *context, int thread, int64_t begin, int64_t end);
sb_pool *sb_pool_new(int threads);
void sb_pool_free(sb_pool *pool);
int sb_pool_threads(const sb_pool *pool);
/* Cover [0, count) in pieces of `grain`, on all threads; returns when all are done. */
void sb_pool_run(sb_pool *pool, sb_work work, void *context, int64_t count, int64_t grain);

#endif
