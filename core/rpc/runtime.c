/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.c - gRPC's life in this process: the completion queue, its thread, the calls that are open.
 *
 * Owns:    the queue and the rpc thread. Always: that thread is in grpc_completion_queue_next without a
 * limit; gRPC makes no progress without such a thread (connections would stall in steps of 5 s). Thread:
 * rpc_main is the rpc thread; every rpc_op.run runs there.
 */
#include "core/rpc/runtime.h"

#include "core/base/clock.h"
#include "core/base/log.h"

#include <grpc/support/log.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ThreadSanitizer does not see what orders threads inside gRPC, which is not built with it: tell it. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

static void *rpc_main(void *arg);
static void  log_from_grpc(gpr_log_func_args *args);

/* gRPC ends the process where it lacks one as it begins. */
static mt_status descriptors_look(void)
{
    enum { WANTED = 8 }; /* it takes 3 */
    int fds[WANTED], count = 0, err = 0;
    while (count < WANTED && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    if (count < WANTED)
        err = errno;
    while (count > 0)
        close(fds[--count]);
    return err ? mt_error(MT_EAGAIN, err, "descriptors for gRPC") : mt_ok();
}

mt_status rpc_new(struct io_loop *loop, struct rpc **out_rpc)
{
    MT_TRY(descriptors_look());
    struct rpc *rpc = calloc(1, sizeof *rpc);
    if (!rpc)
        return mt_error(MT_ENOMEM, 0, "rpc runtime");
    /* Threads inherit the mask; signals are the loop thread's business. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    gpr_set_log_function(log_from_grpc);
    grpc_init();
    rpc->loop = loop;
    rpc->queue = grpc_completion_queue_create_for_next(NULL);
    rpc_scope_init(&rpc->clients);
    int err = pthread_create(&rpc->thread, NULL, rpc_main, rpc);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err) {
        grpc_completion_queue_shutdown(rpc->queue);
        grpc_completion_queue_next(rpc->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        grpc_completion_queue_destroy(rpc->queue);
        grpc_shutdown();
        free(rpc);
        return mt_error(MT_ESYS, err, "pthread_create for the rpc thread");
    }
    *out_rpc = rpc;
    return mt_ok();
}

static void scope_cancel(struct rpc_scope *scope)
{
    pthread_mutex_lock(&scope->lock);
    for (struct rpc_live *live = scope->first; live; live = live->next) {
        live->is_cancelled = true;
        grpc_call_cancel(live->call, NULL);
    }
    pthread_mutex_unlock(&scope->lock);
}

void rpc_free(struct rpc *rpc)
{
    scope_cancel(&rpc->clients);
    bool is_empty = rpc_wait(rpc, rpc_scope_is_empty, &rpc->clients, MT_CLOSE_MS_MAX);
    MT_ASSERT(is_empty);
    grpc_completion_queue_shutdown(rpc->queue);
    pthread_join(rpc->thread, NULL);
    grpc_completion_queue_destroy(rpc->queue);
    rpc_scope_fini(&rpc->clients);
    free(rpc);
    /* The plain grpc_shutdown leaves the clean-up to a thread that nobody can wait for. */
    grpc_shutdown_blocking();
}

/* What gRPC calls an error is, to us, mostly a peer's bad behaviour. */
static void log_from_grpc(gpr_log_func_args *args)
{
    if (args->severity >= GPR_LOG_SEVERITY_ERROR)
        mt_log(MT_LOG_WARN, "grpc", "text=\"%s\"", args->message);
}

static void *rpc_main(void *arg)
{
    struct rpc *rpc = arg;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(rpc->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct rpc_op *op = event.tag;
        __tsan_acquire(op);
        op->run(op, event.success != 0);
    }
}

bool rpc_wait(struct rpc *rpc, bool (*is_done)(void *what), void *what, uint64_t limit_ms)
{
    uint64_t start = io_now_ms();
    for (;;) {
        if (rpc->loop)
            io_loop_drain(rpc->loop);
        if (is_done(what))
            return true;
        if (io_now_ms() - start >= limit_ms)
            return false;
        mt_sleep_ms(1); /* only while closing; nothing here is worth a condition variable */
    }
}

void rpc_op_give(struct rpc_op *op)
{
    __tsan_release(op);
}

void rpc_start(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_op *tag)
{
    rpc_op_give(tag);
    grpc_call_error err = grpc_call_start_batch(call, ops, count, tag, NULL);
    MT_ASSERT(err == GRPC_CALL_OK); /* fails for misuse only */
}

gpr_timespec rpc_deadline(uint32_t timeout_ms)
{
    if (timeout_ms == 0)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

void rpc_scope_init(struct rpc_scope *scope)
{
    pthread_mutex_init(&scope->lock, NULL);
    scope->first = NULL;
    atomic_init(&scope->count, 0);
}

void rpc_scope_fini(struct rpc_scope *scope)
{
    MT_ASSERT(scope->count == 0);
    pthread_mutex_destroy(&scope->lock);
}

bool rpc_scope_is_empty(void *what)
{
    struct rpc_scope *scope = what;
    pthread_mutex_lock(&scope->lock);
    bool is_empty = atomic_load(&scope->count) == 0;
    pthread_mutex_unlock(&scope->lock);
    return is_empty;
}

void rpc_live_add(struct rpc_scope *scope, struct rpc_live *live, grpc_call *call)
{
    live->scope = scope;
    live->call = call;
    live->back = NULL;
    pthread_mutex_lock(&scope->lock);
    live->next = scope->first;
    if (live->next)
        live->next->back = live;
    scope->first = live;
    scope->count++;
    pthread_mutex_unlock(&scope->lock);
}

void rpc_live_end(struct rpc_live *live)
{
    struct rpc_scope *scope = live->scope;
    grpc_call        *call = live->call;
    pthread_mutex_lock(&scope->lock);
    if (live->back)
        live->back->next = live->next;
    else
        scope->first = live->next;
    if (live->next)
        live->next->back = live->back;
    pthread_mutex_unlock(&scope->lock);
    grpc_call_unref(call); /* before the count: who waits for it may shut gRPC down next */
    pthread_mutex_lock(&scope->lock);
    scope->count--;
    pthread_mutex_unlock(&scope->lock);
}
