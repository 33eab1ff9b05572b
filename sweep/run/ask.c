/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - see ask.h.
 *
 * Owns: the program and both ends of its pipes. It dies with the thread that made it.
 */
#include "sweep/run/ask.h"

#include "core/sys/child.h"
#include "core/base/clock.h"
#include "core/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64, COMMAND_MAX = 1024 };

extern char **environ;

struct swp_ask {
    const struct swp_space *space;
    pid_t                   pid;
    int                     to_fd, from_fd;
    mt_buf                  out, in;
    char                    text[MT_ERROR_BYTES_MAX];
};

static mt_status fail(struct swp_ask *a, int32_t code, const char *why)
{
    snprintf(a->text, sizeof a->text, "the program that samples: %.400s", why);
    return mt_error(code, 0, "ask another program");
}

/* ---- lines ---- */

static mt_status send_line(struct swp_ask *a)
{
    MT_TRY(mt_buf_append(&a->out, "\n", 1));
    int64_t limit = mt_now_ns() + MT_SWEEP_ASK_MS * 1000000ll;
    for (size_t at = 0; at < a->out.size;) {
        struct pollfd fd = {a->to_fd, POLLOUT, 0};
        ssize_t n = poll(&fd, 1, 1000) > 0 ? send(a->to_fd, a->out.data + at, a->out.size - at, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail(a, MT_EWORKER_DIED, "it has ended, or closed its standard input");
        at += n > 0 ? (size_t)n : 0;
        if (mt_now_ns() > limit)
            return fail(a, MT_ETIMEDOUT, "it does not read what it is told");
    }
    a->out.size = 0;
    return mt_ok();
}

/* Its next line, ended by a NUL, at the beginning of a->in; *out_size: what it takes there. */
static mt_status receive_line(struct swp_ask *a, size_t *out_size)
{
    int64_t limit = mt_now_ns() + MT_SWEEP_ASK_MS * 1000000ll;
    for (;;) {
        uint8_t *end = a->in.size ? memchr(a->in.data, '\n', a->in.size) : NULL;
        if (end) {
            *end = 0;
            *out_size = (size_t)(end - a->in.data) + 1;
            return mt_ok();
        }
        struct pollfd fd = {a->from_fd, POLLIN, 0};
        MT_TRY(mt_buf_reserve(&a->in, 4096));
        ssize_t n = poll(&fd, 1, 1000) > 0 ? read(a->from_fd, a->in.data + a->in.size, 4096) : -1;
        if (n == 0)
            return fail(a, MT_EWORKER_DIED, "it ended without an answer");
        a->in.size += n > 0 ? (size_t)n : 0;
        if (mt_now_ns() > limit || a->in.size > MT_SWEEP_JSON_BYTES_MAX)
            return fail(a, MT_ETIMEDOUT, "it gives no answer");
    }
}

/* ---- questions ---- */

/* {"params":{...}} or {"end":true} */
static mt_status answer_read(struct swp_ask *a, const char *line, struct swp_point *out)
{
    struct mt_json     json = mt_json_of(mt_view_text(line));
    struct swp_problem problem;
    mt_buf             name = {0};
    bool               first = true, has_point = false, is_end = false;
    mt_status          st = mt_json_take(&json, '{');
    problem.text[0] = 0;
    while (st.code == 0 && mt_json_more(&json, '}', &first, &st)) {
        name.size = 0;
        st = mt_json_name(&json, &name);
        const char *value = json.next + strspn(json.next, " ");
        if (st.code == 0)
            st = mt_json_skip(&json);
        if (st.code == 0 && strcmp((const char *)name.data, "end") == 0)
            is_end = true;
        if (st.code == 0 && strcmp((const char *)name.data, "params") == 0) {
            has_point = true;
            st = swp_point_from_json(a->space, mt_view_of(value, (size_t)(json.next - value)), NULL, out, &problem);
        }
    }
    mt_buf_fini(&name);
    if (st.code == 0 && is_end)
        return mt_error(MT_EEND, 0, "no further point");
    if (st.code == 0 && has_point)
        return mt_ok();
    return fail(a, MT_EPROTO, problem.text[0] ? problem.text : "its answer is not {\"params\":{...}} on one line");
}

static mt_status suggest(void *self, uint64_t trial, struct swp_point *out_point)
{
    struct swp_ask *a = self;
    size_t          size = 0;
    for (int i = 0; i < MT_SWEEP_PARAMS_MAX; i++)
        out_point->values[i] = 0.0 / 0.0;
    MT_TRY(mt_buf_printf(&a->out, "{\"suggest\":%" PRIu64 "}", trial));
    MT_TRY(send_line(a));
    MT_TRY(receive_line(a, &size));
    mt_status st = answer_read(a, (const char *)a->in.data, out_point);
    memmove(a->in.data, a->in.data + size, a->in.size - size);
    a->in.size -= size;
    return st;
}

static mt_status restore(void *self, uint64_t trial, const struct swp_point *point)
{
    struct swp_ask *a = self;
    MT_TRY(mt_buf_printf(&a->out, "{\"restore\":%" PRIu64 ",\"params\":", trial));
    MT_TRY(swp_point_to_json(a->space, point, &a->out));
    MT_TRY(mt_buf_append(&a->out, "}", 1));
    return send_line(a);
}

static mt_status tell(void *self, uint64_t trial, const struct swp_outcome *outcome)
{
    static const char *const states[] = {[SWP_COMPLETE] = "complete", [SWP_PRUNED] = "pruned", [SWP_FAILED] = "failed"};
    struct swp_ask          *a = self;
    MT_TRY(mt_buf_printf(&a->out, "{\"tell\":%" PRIu64 ",\"state\":\"%s\"", trial, states[outcome->kind]));
    if (outcome->kind != SWP_FAILED) {
        MT_TRY(mt_buf_printf(&a->out, ",\"value\":"));
        MT_TRY(mt_json_put_real(&a->out, outcome->value));
        MT_TRY(mt_buf_printf(&a->out, ",\"step\":%.0f", outcome->step));
    }
    MT_TRY(mt_buf_append(&a->out, "}", 1));
    return send_line(a);
}

/* ---- the program ---- */

static mt_status greet(struct swp_ask *a, bool maximize, uint64_t seed)
{
    MT_TRY(mt_buf_printf(&a->out, "{\"space\":"));
    MT_TRY(swp_space_to_json(a->space, &a->out));
    MT_TRY(mt_buf_printf(&a->out, ",\"maximize\":%s,\"seed\":%" PRIu64 "}", maximize ? "true" : "false", seed));
    return send_line(a);
}

static mt_status program_start(struct swp_ask *a, const char *command)
{
    char copy[COMMAND_MAX], *words[WORDS_MAX + 1], *rest = copy, *word;
    int  count = 0, pair[2];
    snprintf(copy, sizeof copy, "%s", command);
    while ((word = strsep(&rest, " ")) && count < WORDS_MAX)
        if (*word)
            words[count++] = word;
    words[count] = NULL;
    if (count == 0)
        return fail(a, MT_EINVAL, "exec: names no program");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return mt_error(MT_ESYS, errno, "make a pair of sockets");
    struct mt_child_opts o = {.argv = words,
                              .env = environ,
                              .session = MT_CHILD_GROUP,
                              .dies_with_parent = true,
                              .fds = {{pair[1], 0}, {pair[1], 1}},
                              .fd_count = 2};
    mt_status            st = mt_child_start(&o, &a->pid);
    close(pair[1]);
    a->to_fd = a->from_fd = pair[0];
    return st.code ? fail(a, st.code, st.code == MT_ENOENT ? "there is no such program" : strerror(st.sys)) : st;
}

mt_status swp_ask_new(const char *command, const struct swp_space *space, bool maximize, uint64_t seed, struct swp_ask **out,
                      struct swp_problem *out_problem)
{
    struct swp_ask *a = calloc(1, sizeof *a);
    if (!a)
        return mt_error(MT_ENOMEM, 0, "start a sampler");
    a->space = space;
    a->to_fd = a->from_fd = -1;
    mt_status st = program_start(a, command);
    if (st.code == 0)
        st = greet(a, maximize, seed);
    if (st.code == 0) {
        *out = a;
        return st;
    }
    snprintf(out_problem->text, sizeof out_problem->text, "%s", a->text);
    swp_ask_free(a);
    return st;
}

/* Its standard input ends; one that does not heed that is killed, and what it has started with it. */
void swp_ask_free(struct swp_ask *a)
{
    if (!a)
        return;
    if (a->to_fd >= 0)
        close(a->to_fd);
    for (int i = 0; a->pid && i < MT_SWEEP_ASK_LEAVE_MS && waitpid(a->pid, NULL, WNOHANG) == 0; i++) {
        if (i == MT_SWEEP_ASK_LEAVE_MS - 1) {
            kill(-a->pid, SIGKILL);
            while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
        mt_sleep_ms(1);
    }
    mt_buf_fini(&a->out);
    mt_buf_fini(&a->in);
    free(a);
}

struct swp_source swp_ask_source(struct swp_ask *ask)
{
    return (struct swp_source){ask, suggest, restore, tell};
}

const char *swp_ask_text(const struct swp_ask *ask)
{
    return ask->text;
}
