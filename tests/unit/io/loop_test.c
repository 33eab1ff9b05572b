/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_test.c - messages, timers, descriptors, signals and the worker of one loop.
 */
#include "tests/unit/io/io_test.h"

#include "core/base/rng.h"
#include "core/io/io.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct io_loop *loop;

static int setup(void **state)
{
    (void)state;
    assert_ok(io_loop_new(&loop));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_loop_free(loop);
    return 0;
}

/* ---- messages ---- */

enum { SENDERS = 4, MESSAGES = 20000 };
struct numbered {
    struct io_msg msg;
    unsigned      sender, number;
};
static unsigned next_number[SENDERS], messages_left;

static void numbered_run(struct io_msg *msg)
{
    struct numbered *n = mt_container_of(msg, struct numbered, msg);
    assert_int_equal(n->number, next_number[n->sender]);
    next_number[n->sender]++;
    free(n);
    if (--messages_left == 0)
        io_loop_stop(loop);
}

static void *sender_main(void *arg)
{
    unsigned sender = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct numbered *n = calloc(1, sizeof *n);
        n->msg.run = numbered_run;
        n->sender = sender;
        n->number = i;
        io_loop_post(loop, &n->msg);
    }
    return NULL;
}

static void messages_of_each_thread_keep_their_order(void **state)
{
    pthread_t threads[SENDERS];
    (void)state;
    memset(next_number, 0, sizeof next_number);
    messages_left = SENDERS * MESSAGES;
    for (uintptr_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sender_main, (void *)i), 0);
    io_loop_run(loop);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(messages_left, 0);
}

static char          trace[16];
static size_t        trace_size;
static struct io_msg letters[3];

static void letter_run(struct io_msg *msg)
{
    size_t i = (size_t)(msg - letters);
    trace[trace_size++] = "abc"[i];
    if (i == 0) {
        io_loop_drain(loop); /* must see b, which was taken from the inbox together with a */
        trace[trace_size++] = '.';
    }
    if (i == 2)
        io_loop_stop(loop);
}

static void drain_inside_a_message_runs_those_behind_it(void **state)
{
    (void)state;
    memset(trace, 0, sizeof trace);
    trace_size = 0;
    for (int i = 0; i < 3; i++) {
        letters[i].run = letter_run;
        io_loop_post(loop, &letters[i]);
    }
    io_loop_run(loop);
    assert_string_equal(trace, "abc.");
}

static int  ticks;
static void tick_run(struct io_tick *tick)
{
    (void)tick;
    ticks++;
}

static void tick_runs_before_the_loop_sleeps(void **state)
{
    struct io_tick tick = {tick_run};
    (void)state;
    ticks = 0;
    io_loop_set_tick(loop, &tick);
    letters[2].run = letter_run;
    io_loop_post(loop, &letters[2]);
    io_loop_run(loop);
    assert_true(ticks >= 1);
    io_loop_set_tick(loop, NULL);
}

/* ---- timers ---- */

enum { TIMERS = 500 };
struct test_timer {
    struct io_timer timer;
    uint64_t        wanted_ms;
    bool            is_fired;
};
static struct test_timer timers[TIMERS];
static uint64_t          last_due;
static int               fired, fires_wanted;

static void timer_fired(struct io_timer *timer)
{
    struct test_timer *t = mt_container_of(timer, struct test_timer, timer);
    assert_false(t->is_fired);
    assert_false(io_timer_is_started(timer));
    assert_true(io_now_ms() >= t->wanted_ms);
    assert_true(timer->due_ms >= last_due);
    last_due = timer->due_ms;
    t->is_fired = true;
    if (++fired == fires_wanted)
        io_loop_stop(loop);
}

static void timers_fire_in_order_and_stopped_ones_never(void **state)
{
    mt_rng rng = {42};
    (void)state;
    memset(timers, 0, sizeof timers);
    fired = fires_wanted = 0;
    last_due = 0;
    for (int i = 0; i < TIMERS; i++) {
        uint64_t ms = mt_rng_below(&rng, 60);
        timers[i].timer.fire = timer_fired;
        timers[i].wanted_ms = io_now_ms() + ms;
        io_timer_start(loop, &timers[i].timer, ms + 1000); /* moved by the second start */
        io_timer_start(loop, &timers[i].timer, ms);
    }
    for (int i = 0; i < TIMERS; i++)
        if (i % 5 == 0)
            io_timer_stop(&timers[i].timer);
        else
            fires_wanted++;
    io_loop_run(loop);
    for (int i = 0; i < TIMERS; i++)
        assert_int_equal(timers[i].is_fired, i % 5 != 0);
}

/* The loop came to the timer 200 ms late: by so much what began before is younger, and nothing begins after now. */
static void time_that_a_timer_was_late_is_forgiven(void **state)
{
    const struct io_timer late = {.due_ms = 100}, in_time = {.due_ms = 300};
    const uint64_t        began[] = {0, 50, 99, 100, 250, 300}, then[] = {200, 250, 299, 300, 300, 300};
    (void)state;
    for (size_t i = 0; i < sizeof began / sizeof *began; i++) {
        uint64_t since = began[i];
        io_timer_forgive(&in_time, 300, &since);
        assert_int_equal(since, began[i]);
        io_timer_forgive(&late, 300, &since);
        assert_int_equal(since, then[i]);
    }
}

static void timer_again(struct io_timer *timer)
{
    if (++fired < 5)
        io_timer_start(loop, timer, 0);
    else
        io_loop_stop(loop);
}

static void timer_may_start_itself(void **state)
{
    struct io_timer timer = {.fire = timer_again};
    (void)state;
    fired = 0;
    io_timer_start(loop, &timer, 0);
    io_loop_run(loop);
    assert_int_equal(fired, 5);
}

/* ---- descriptors and signals ---- */

struct test_watch {
    struct io_watch watch;
    int             fd;
    unsigned        events;
};

static void watch_ready(struct io_watch *watch, unsigned events)
{
    struct test_watch *t = mt_container_of(watch, struct test_watch, watch);
    t->events |= events;
    io_watch_stop(watch);
    close(t->fd);
    io_loop_stop(loop);
}

static void eventfd_wakes_the_loop(void **state)
{
    struct test_watch t = {.watch.ready = watch_ready, .fd = eventfd(1, EFD_CLOEXEC)};
    (void)state;
    assert_ok(io_watch_start(loop, &t.watch, t.fd, IO_READABLE));
    io_loop_run(loop);
    assert_int_equal(t.events, IO_READABLE);
}

static void pidfd_tells_a_death(void **state)
{
    struct test_watch t = {.watch.ready = watch_ready};
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    t.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(t.fd >= 0);
    assert_ok(io_watch_start(loop, &t.watch, t.fd, IO_READABLE));
    kill(pid, SIGKILL);
    io_loop_run(loop);
    assert_int_equal(t.events, IO_READABLE);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void hangup_of_a_pipe_is_told(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    struct test_watch t = {.watch.ready = watch_ready, .fd = fds[0]};
    assert_ok(io_watch_start(loop, &t.watch, t.fd, IO_HANGUP));
    struct test_watch again = {.watch.ready = watch_ready};
    assert_code(io_watch_start(loop, &again.watch, fds[0], IO_READABLE), MT_EEXIST);
    close(fds[1]);
    io_loop_run(loop);
    assert_true(t.events & IO_HANGUP);
}

static int  caught;
static void signal_caught(struct io_signal *s, int number)
{
    caught = number;
    io_signal_stop(s);
    io_loop_stop(loop);
}

static void signal_runs_on_the_loop(void **state)
{
    struct io_signal s = {.caught = signal_caught};
    (void)state;
    assert_ok(io_signal_start(loop, &s, SIGUSR1));
    kill(getpid(), SIGUSR1);
    io_loop_run(loop);
    assert_int_equal(caught, SIGUSR1);
}

/* ---- the worker ---- */

enum { JOBS = 1000 };
struct test_job {
    struct io_job job;
    int           number;
    pthread_t     ran_on;
};
static int jobs_worked, jobs_done;

static void job_work(struct io_job *job)
{
    struct test_job *t = mt_container_of(job, struct test_job, job);
    assert_int_equal(t->number, jobs_worked++);
    t->ran_on = pthread_self();
}

static void job_done(struct io_job *job)
{
    struct test_job *t = mt_container_of(job, struct test_job, job);
    assert_int_equal(t->number, jobs_done++);
    assert_false(pthread_equal(t->ran_on, pthread_self()));
    if (jobs_done == JOBS)
        io_loop_stop(loop);
}

static void worker_keeps_order_and_bound(void **state)
{
    struct io_worker      *worker;
    static struct test_job jobs[JOBS + 2];
    (void)state;
    jobs_worked = jobs_done = 0;
    assert_code(io_worker_new(loop, 0, &worker), MT_EINVAL);
    assert_ok(io_worker_new(loop, JOBS, &worker));
    for (int i = 0; i < JOBS + 2; i++)
        jobs[i] = (struct test_job){.job = {.work = job_work, .done = job_done}, .number = i};
    for (int i = 0; i < JOBS; i++)
        assert_ok(io_worker_submit(worker, &jobs[i].job));
    assert_code(io_worker_submit(worker, &jobs[JOBS].job), MT_EAGAIN);
    io_loop_run(loop);
    assert_ok(io_worker_submit(worker, &jobs[JOBS].job));
    assert_ok(io_worker_submit(worker, &jobs[JOBS + 1].job));
    io_worker_free(worker); /* finishes both, done included */
    assert_int_equal(jobs_done, JOBS + 2);
}

struct follower {
    struct io_job     job;
    struct io_worker *worker;
    mt_status         second; /* of the attempt to submit another */
};

static void follower_work(struct io_job *job)
{
    (void)job;
}

static void follower_done(struct io_job *job)
{
    static struct io_job another = {.work = follower_work, .done = follower_done};
    struct follower     *f = mt_container_of(job, struct follower, job);
    f->second = io_worker_submit(f->worker, &another);
}

static void worker_that_ends_takes_no_more(void **state)
{
    struct follower f = {.job = {.work = follower_work, .done = follower_done}};
    (void)state;
    assert_ok(io_worker_new(loop, JOBS, &f.worker));
    assert_ok(io_worker_submit(f.worker, &f.job));
    io_worker_free(f.worker); /* its thread is gone when `done` runs: another job would never be done */
    assert_code(f.second, MT_ECANCELLED);
}

static void fd_limit_is_raised(void **state)
{
    uint32_t before = 0, limit = 0;
    (void)state;
    assert_ok(io_raise_fd_limit(&before, &limit));
    assert_true(before > 0 && limit >= before && limit >= 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_of_each_thread_keep_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(drain_inside_a_message_runs_those_behind_it, setup, teardown),
        cmocka_unit_test_setup_teardown(tick_runs_before_the_loop_sleeps, setup, teardown),
        cmocka_unit_test_setup_teardown(timers_fire_in_order_and_stopped_ones_never, setup, teardown),
        cmocka_unit_test(time_that_a_timer_was_late_is_forgiven),
        cmocka_unit_test_setup_teardown(timer_may_start_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(eventfd_wakes_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(pidfd_tells_a_death, setup, teardown),
        cmocka_unit_test_setup_teardown(hangup_of_a_pipe_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(signal_runs_on_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(worker_keeps_order_and_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(worker_that_ends_takes_no_more, setup, teardown),
        cmocka_unit_test(fd_limit_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
