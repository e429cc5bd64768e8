/* A fixed set of threads that share out ranges. Which thread takes which piece is left to chance:
 * it cannot reach the bits, because every piece writes its own outputs and all sums are integers.
 *
 * Workers spin briefly for the next piece of work, since a decoder asks hundreds of times a token,
 * then sleep. After a fork the threads are gone; they are started again in the child. One caller at a
 * time: the context (api.c) sees to that.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "samebits.h"

#if SB_X86
#include <immintrin.h>
#define PAUSE() _mm_pause()
#else
#define PAUSE() sched_yield()
#endif

#define SPINS 4000 /* about a tenth of a millisecond */

struct sb_pool {
    int threads;
    pid_t owner; /* the process whose threads these are */
    pthread_t *workers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool closing;
    atomic_uint round; /* goes up when there is work */
    atomic_int busy;   /* workers that have not finished the round */
    sb_work work;
    void *context;
    int64_t count;
    int64_t grain;
    _Atomic int64_t next;
};

typedef struct {
    sb_pool *pool;
    int thread;
    unsigned round; /* the round the pool stood at when the worker was made */
} start_of_worker;

static void take_pieces(sb_pool *pool, int thread)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&pool->next, pool->grain);
        if (begin >= pool->count)
            return;
        int64_t end = begin + pool->grain;
        pool->work(pool->context, thread, begin, end < pool->count ? end : pool->count);
    }
}

static bool wait_for_round(sb_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen)
            return true;
        PAUSE();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->round) == seen && !pool->closing)
        pthread_cond_wait(&pool->wake, &pool->lock);
    bool has_work = atomic_load(&pool->round) != seen;
    pthread_mutex_unlock(&pool->lock);
    return has_work;
}

static void *worker(void *argument)
{
    start_of_worker start = *(start_of_worker *)argument;
    free(argument);
    sb_default_modes(); /* a new thread inherits those of whoever made it */
    while (wait_for_round(start.pool, start.round)) {
        start.round++;
        take_pieces(start.pool, start.thread);
        atomic_fetch_sub_explicit(&start.pool->busy, 1, memory_order_release);
    }
    return NULL;
}

static bool start_workers(sb_pool *pool)
{
    pool->owner = getpid();
    pool->closing = false;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int i = 1; i < pool->threads; i++) {
        start_of_worker *start = malloc(sizeof *start);
        if (start != NULL)
            *start = (start_of_worker){pool, i, atomic_load(&pool->round)};
        if (start == NULL || pthread_create(&pool->workers[i], NULL, worker, start) != 0) {
            free(start);
            pool->threads = i; /* those that did start are stopped by sb_pool_free */
            return false;
        }
    }
    return true;
}

sb_pool *sb_pool_new(int threads)
{
    sb_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->threads = threads;
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (pool->workers == NULL || !start_workers(pool)) {
        sb_pool_free(pool);
        return NULL;
    }
    return pool;
}

void sb_pool_free(sb_pool *pool)
{
    if (pool->workers != NULL && pool->owner == getpid()) {
        pthread_mutex_lock(&pool->lock);
        pool->closing = true;
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int i = 1; i < pool->threads; i++)
            pthread_join(pool->workers[i], NULL);
    }
    free(pool->workers);
    free(pool);
}

int sb_pool_threads(const sb_pool *pool)
{
    return pool->threads;
}

static void begin_round(sb_pool *pool)
{
    atomic_store(&pool->busy, pool->threads - 1);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void end_round(sb_pool *pool)
{
    for (int i = 0; atomic_load_explicit(&pool->busy, memory_order_acquire) != 0; i++) {
        if (i < SPINS)
            PAUSE();
        else
            sched_yield();
    }
}

void sb_pool_run(sb_pool *pool, sb_work work, void *context, int64_t count, int64_t grain)
{
    if (pool->threads > 1 && pool->owner != getpid())
        start_workers(pool); /* fewer than wished are told by sb_pool_threads */
    pool->work = work;
    pool->context = context;
    pool->count = count;
    pool->grain = grain;
    atomic_store(&pool->next, 0);
    bool shared = pool->threads > 1 && count > grain;
    if (shared)
        begin_round(pool);
    take_pieces(pool, 0);
    if (shared)
        end_round(pool);
}
