/* What Python calls: one context with its threads, its level and its scratch memory.
 *
 * Each call splits its outputs into pieces for the pool. Returns an sb_status. A caller's rounding
 * and flush-to-zero modes are put aside for the length of a call: they would reach the bits.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "samebits.h"

#define PUBLIC __attribute__((visibility("default")))

extern const sb_level sb_level_generic, sb_level_wide;
#if SB_X86
extern const sb_level sb_level_avx2, sb_level_avx512, sb_level_avx512vnni;
#endif

typedef struct {
    pthread_mutex_t lock; /* one call at a time: scratch is shared; recursive, for sb_run */
    pid_t owner;          /* the process that made the lock */
    sb_pool *pool;
    const sb_level *level;
    size_t size;
    char *memory; /* scratch of one operation; grows and is kept */
    size_t buffer_size;
    char *buffers; /* activations of a program; the same */
} sb_context;

static const sb_level *find_level(const char *name)
{
#if SB_X86
    __builtin_cpu_init();
    if (strcmp(name, "avx512vnni") == 0)
        return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                   ? &sb_level_avx512vnni
                   : NULL;
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                   ? &sb_level_avx512
                   : NULL;
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") ? &sb_level_avx2 : NULL;
#endif
    if (strcmp(name, "wide") == 0)
        return &sb_level_wide;
    return strcmp(name, "generic") == 0 ? &sb_level_generic : NULL;
}

/* Whether this processor can run a level. */
PUBLIC int sb_has_level(const char *name)
{
    return find_level(name) != NULL;
}

PUBLIC void sb_close(sb_context *c)
{
    if (c->pool != NULL)
        sb_pool_free(c->pool);
    free(c->memory);
    free(c->buffers);
    free(c);
}

static void make_lock(sb_context *c)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    c->owner = getpid();
}

/* NULL if the level cannot run here or the threads cannot be had. */
PUBLIC sb_context *sb_open(const char *level, int threads)
{
    sb_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    make_lock(c);
    c->level = find_level(level);
    c->pool = c->level != NULL && threads > 0 ? sb_pool_new(threads) : NULL;
    if (c->pool == NULL) {
        sb_close(c);
        return NULL;
    }
    return c;
}

static sb_modes begin_call(sb_context *c)
{
    if (c->owner != getpid())
        make_lock(c); /* a thread that held it did not come along in the fork */
    pthread_mutex_lock(&c->lock);
    return sb_default_modes();
}

static int end_call(sb_context *c, sb_modes caller, int status)
{
    sb_restore_modes(caller);
    pthread_mutex_unlock(&c->lock);
    return status;
}

PUBLIC int sb_threads(const sb_context *c)
{
    return sb_pool_threads(c->pool);
}

static void *grow(char **memory, size_t *size, size_t bytes)
{
    if (bytes > *size) {
        free(*memory);
        *size = (bytes + bytes / 4 + 4095) & ~(size_t)4095;
        *memory = aligned_alloc(64, *size);
        if (*memory == NULL)
            *size = 0;
    }
    return *memory;
}

/* Pieces small enough that `threads` of them end together, at least `least` long. */
static int64_t grain_of(const sb_context *c, int64_t count, int64_t least)
{
    int64_t grain = count / (8 * sb_pool_threads(c->pool));
    return grain < least ? least : grain;
}

/* ---- rows: operations that treat each row alone --------------------------------------------- */

typedef struct {
    const sb_level *level;
    const float *x;
    const float *w;
    int64_t k;
    double eps;
    int gelu;
    float *y;
    int16_t *q;
    int32_t *e;
    int64_t *ids;
    atomic_int status;
} row_call;

static void quantise_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    row_call *c = context;
    atomic_fetch_or(&c->status, c->level->quantise_rows(c->x + begin * c->k, end - begin, c->k,
                                                        c->q + begin * c->k, c->e + begin));
}

PUBLIC int sb_quantise_rows(sb_context *c, const float *x, int64_t rows, int64_t k, int16_t *q,
                            int32_t *e)
{
    sb_modes caller = begin_call(c);
    row_call call = {.level = c->level, .x = x, .k = k, .q = q, .e = e};
    sb_pool_run(c->pool, quantise_piece, &call, rows, grain_of(c, rows, 1 + 4096 / k));
    return end_call(c, caller, call.status);
}

static void norm_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    row_call *c = context;
    atomic_fetch_or(&c->status, c->level->rms_norm(c->x + begin * c->k, c->w, c->eps, end - begin,
                                                   c->k, c->y + begin * c->k));
}

PUBLIC int sb_rms_norm(sb_context *c, const float *x, const float *w, double eps, int64_t rows,
                       int64_t k, float *y)
{
    sb_modes caller = begin_call(c);
    row_call call = {.level = c->level, .x = x, .w = w, .eps = eps, .k = k, .y = y};
    sb_pool_run(c->pool, norm_piece, &call, rows, grain_of(c, rows, 1 + 4096 / k));
    return end_call(c, caller, call.status);
}

static void gate_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    row_call *c = context;
    c->level->gate(c->x + begin * 2 * c->k, c->gelu, end - begin, c->k, c->y + begin * c->k);
}

PUBLIC int sb_gate(sb_context *c, const float *gu, int gelu, int64_t rows, int64_t f, float *y)
{
    sb_modes caller = begin_call(c);
    row_call call = {.level = c->level, .x = gu, .gelu = gelu, .k = f, .y = y};
    sb_pool_run(c->pool, gate_piece, &call, rows, grain_of(c, rows, 1 + 2048 / f));
    return end_call(c, caller, call.status);
}

static void argmax_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    row_call *c = context;
    for (int64_t r = begin; r < end; r++)
        atomic_fetch_or(&c->status, c->level->argmax(c->x + r * c->k, c->k, c->ids + r));
}

PUBLIC int sb_argmax(sb_context *c, const float *z, int64_t rows, int64_t v, int64_t *ids)
{
    sb_modes caller = begin_call(c);
    row_call call = {.level = c->level, .x = z, .k = v, .ids = ids};
    sb_pool_run(c->pool, argmax_piece, &call, rows, 1);
    return end_call(c, caller, call.status);
}

static void log_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    row_call *c = context;
    for (int64_t r = begin; r < end; r++)
        atomic_fetch_or(&c->status,
                        c->level->log_probabilities(c->x + r * c->k, c->k, c->y + r * c->k));
}

PUBLIC int sb_log_probabilities(sb_context *c, const float *z, int64_t rows, int64_t v, float *y)
{
    sb_modes caller = begin_call(c);
    row_call call = {.level = c->level, .x = z, .k = v, .y = y};
    sb_pool_run(c->pool, log_piece, &call, rows, 1);
    return end_call(c, caller, call.status);
}

PUBLIC int sb_softmax_weights(sb_context *c, const float *z, float factor, int64_t v, int64_t *w)
{
    sb_modes caller = begin_call(c);
    return end_call(c, caller, c->level->softmax_weights(z, factor, v, w));
}

/* ---- weights ---------------------------------------------------------------------------------- */

typedef struct {
    const sb_level *level;
    const float *w;
    int64_t k;
    int bits;
    char *q;
    float *s;
    atomic_int status;
} weight_call;

static void weight_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    weight_call *c = context;
    void *q = c->q + begin * c->k * (c->bits / 8);
    atomic_fetch_or(&c->status, c->level->quantise_weight(c->w + begin * c->k, end - begin, c->k,
                                                          c->bits, q, c->s + begin));
}

PUBLIC int sb_quantise_weight(sb_context *c, const float *w, int64_t n, int64_t k, int bits,
                              void *q, float *s)
{
    sb_modes caller = begin_call(c);
    weight_call call = {.level = c->level, .w = w, .k = k, .bits = bits, .q = q, .s = s};
    sb_pool_run(c->pool, weight_piece, &call, n, grain_of(c, n, 1 + 4096 / k));
    return end_call(c, caller, call.status);
}

/* ---- linear ----------------------------------------------------------------------------------- */

typedef struct {
    const sb_level *level;
    const sb_weight *w;
    const float *x;
    const float *residual;
    int64_t rows;
    int64_t tile_rows;
    int32_t *tiles;
    int32_t *e;
    float *y;
    atomic_int status;
} linear_call;

static void pack_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    linear_call *c = context;
    int64_t k = c->w->num_inputs, first = begin * c->tile_rows, last = end * c->tile_rows;
    int64_t a_row = (k + 1) / 2 * (c->w->bits == 16 ? c->level->digits16 : 1);
    last = last < c->rows ? last : c->rows;
    atomic_fetch_or(&c->status,
                    c->level->pack_rows(c->x + first * k, last - first, k, (int)c->w->bits,
                                        c->tiles + first * a_row, c->e + first));
}

static void panel_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    linear_call *c = context;
    c->level->linear(c->w, c->tiles, c->e, c->rows, begin, end, c->residual, c->y);
}

PUBLIC int sb_linear(sb_context *c, const sb_weight *w, const float *x, int64_t rows,
                     const float *residual, float *y)
{
    sb_modes caller = begin_call(c);
    int64_t a_row = (w->num_inputs + 1) / 2 * (w->bits == 16 ? c->level->digits16 : 1);
    size_t tile_bytes = ((size_t)(rows * a_row) * sizeof(int32_t) + 63) & ~(size_t)63;
    char *memory = grow(&c->memory, &c->size, tile_bytes + (size_t)rows * sizeof(int32_t));
    if (memory == NULL)
        return end_call(c, caller, SB_NO_MEMORY);
    linear_call call = {.level = c->level, .w = w, .x = x, .residual = residual, .rows = rows, .y = y};
    call.tile_rows = w->bits == 16 ? c->level->tile16 : c->level->tile8;
    call.tiles = (int32_t *)(void *)memory;
    call.e = (int32_t *)(void *)(memory + tile_bytes);
    int64_t tiles = (rows + call.tile_rows - 1) / call.tile_rows;
    sb_pool_run(c->pool, pack_piece, &call, tiles, grain_of(c, tiles, 1 + 8192 / a_row));
    if (call.status == SB_OK) {
        int64_t panels = (w->num_outputs + SB_PANEL - 1) / SB_PANEL;
        int64_t grain = grain_of(c, panels, 1);
        sb_pool_run(c->pool, panel_piece, &call, panels, rows > 1 && grain > 4 ? 4 : grain);
    }
    return end_call(c, caller, call.status);
}

/* ---- attention --------------------------------------------------------------------------------- */

typedef struct {
    const sb_level *level;
    const float *qkv;
    const sb_shape *shape;
    const sb_head_norms *norms;
    const float *cos, *sin;
    const sb_rows *rows;
    const sb_cache *cache;
    const sb_attention_task *tasks;
    char *memory;
    size_t per_thread;
    float *out;
    atomic_int status;
} attention_call;

static void rope_piece(void *context, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    attention_call *c = context;
    atomic_fetch_or(&c->status, c->level->rope_append(c->qkv, c->shape, c->norms, c->cos, c->sin,
                                                      c->rows, c->cache, begin, end, c->out));
}

PUBLIC int sb_rope_append(sb_context *c, const float *qkv, const sb_shape *shape,
                          const sb_head_norms *norms, const float *cos, const float *sin,
                          const sb_rows *rows, const sb_cache *cache, float *q)
{
    sb_modes caller = begin_call(c);
    attention_call call = {.level = c->level, .qkv = qkv, .shape = shape, .norms = norms};
    call.cos = cos;
    call.sin = sin;
    call.rows = rows;
    call.cache = cache;
    call.out = q;
    int64_t count = rows->starts[rows->num_sequences];
    sb_pool_run(c->pool, rope_piece, &call, count, grain_of(c, count, 2));
    return end_call(c, caller, call.status);
}

static void attention_piece(void *context, int thread, int64_t begin, int64_t end)
{
    attention_call *c = context;
    for (int64_t t = begin; t < end; t++)
        atomic_fetch_or(&c->status,
                        c->level->attention(c->qkv, c->shape, c->rows, c->cache, c->tasks + t,
                                            c->memory + (size_t)thread * c->per_thread, c->out));
}

/* How many tasks a step has; writes them if `tasks` is not NULL, longest contexts first enough. */
static int64_t list_tasks(const sb_shape *shape, const sb_rows *rows, sb_attention_task *tasks)
{
    int64_t count = 0, group = shape->num_heads / shape->num_kv_heads;
    for (int64_t s = 0; s < rows->num_sequences; s++) {
        int64_t first = rows->starts[s] * group, last = rows->starts[s + 1] * group;
        for (int64_t q = last; q > first; q -= SB_MAX_QUERIES)
            for (int64_t g = 0; g < shape->num_kv_heads; g++) {
                if (tasks != NULL)
                    tasks[count] = (sb_attention_task){
                        (int32_t)s, (int32_t)g, q - SB_MAX_QUERIES > first ? q - SB_MAX_QUERIES : first, q};
                count++;
            }
    }
    return count;
}

PUBLIC int sb_attention(sb_context *c, const float *q, const sb_shape *shape, const sb_rows *rows,
                        const sb_cache *cache, float *out)
{
    sb_modes caller = begin_call(c);
    int64_t longest = 0, total = rows->starts[rows->num_sequences];
    for (int64_t r = 0; r < total; r++)
        longest = rows->positions[r] >= longest ? rows->positions[r] + 1 : longest;
    int64_t count = list_tasks(shape, rows, NULL);
    size_t list_bytes = ((size_t)count * sizeof(sb_attention_task) + 63) & ~(size_t)63;
    size_t per_thread = (sb_attention_scratch(longest, shape->head_dim) + 4095) & ~(size_t)4095;
    char *memory = grow(&c->memory, &c->size, list_bytes + per_thread * (size_t)sb_pool_threads(c->pool));
    if (memory == NULL)
        return end_call(c, caller, SB_NO_MEMORY);
    sb_attention_task *tasks = (sb_attention_task *)(void *)memory;
    list_tasks(shape, rows, tasks);
    attention_call call = {.level = c->level, .qkv = q, .shape = shape, .rows = rows};
    call.cache = cache;
    call.tasks = tasks;
    call.memory = memory + list_bytes;
    call.per_thread = per_thread;
    call.out = out;
    sb_pool_run(c->pool, attention_piece, &call, count, 1);
    return end_call(c, caller, call.status);
}

/* ---- programs ---------------------------------------------------------------------------------- */

static void add(const float *x, const float *y, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] + y[i];
}

static int run_op(sb_context *c, const sb_op *op, int64_t count, const sb_rows *rows,
                  const float *in, const float *other, float *out)
{
    switch (op->kind) {
    case SB_LINEAR:
        return sb_linear(c, op->weight, in, count, other, out);
    case SB_NORM:
        return sb_rms_norm(c, in, op->norm, op->eps, count, op->width, out);
    case SB_ROPE:
        return sb_rope_append(c, in, op->shape, op->head_norms, op->cos, op->sin, rows, op->cache,
                              out);
    case SB_ATTENTION:
        return sb_attention(c, in, op->shape, rows, op->cache, out);
    case SB_GATE:
        return sb_gate(c, in, op->gelu != 0, count, op->width, out);
    default:
        add(in, other, count * op->width, out);
        return SB_OK;
    }
}

/* Run recorded operations on x (R rows); copy the last one's output to y. `failed` is told which
 * operation returned the status. */
PUBLIC int sb_run(sb_context *c, const sb_op *ops, int64_t num_ops, int64_t num_buffers,
                  int64_t max_width, const sb_rows *rows, const float *x, float *y,
                  int64_t *failed)
{
    sb_modes caller = begin_call(c);
    int64_t count = rows->starts[rows->num_sequences], size = (count * max_width + 15) / 16 * 16;
    float *buffers = grow(&c->buffers, &c->buffer_size, (size_t)(num_buffers * size) * sizeof *x);
    if (buffers == NULL)
        return end_call(c, caller, SB_NO_MEMORY);
    for (int64_t i = 0; i < num_ops; i++) {
        const sb_op *op = ops + i;
        const float *in = op->input == 0 ? x : buffers + op->input * size;
        const float *other = op->other < 0    ? NULL
                             : op->other == 0 ? x
                                              : buffers + op->other * size;
        float *out = i == num_ops - 1 ? y : buffers + op->output * size;
        int status = run_op(c, op, count, rows, in, other, out);
        if (status != SB_OK) {
            *failed = i;
            return end_call(c, caller, status);
        }
    }
    return end_call(c, caller, SB_OK);
}
