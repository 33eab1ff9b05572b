/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.c - looks whether this machine is about to go: at the time that `--until` says, or when the notice file is there. Tells
 * the core, which lets the node leave before that (core/head/drain.c).
 *
 * Owns: its timer. Thread: the loop only. By the clock of the world, so a machine that slept, or whose clock was set, is right
 * again at the next look.
 */
#include "raylet/shell/procs/procs.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "raylet/files/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 100,
    LEAVE_MS = 1000, /* of what is left: for the end of what still runs then, and the last words to the head */
};

/* What is here may run for `limit_ms`. */
static void tell(struct sh *sh, uint64_t limit_ms, const char *why)
{
    struct rlt_event e;
    mt_log(MT_LOG_WARN, "machine_goes", "limit_ms=%" PRIu64 " why=\"%s\"", limit_ms, why);
    sh_event(&e, RLT_EV_NOTICE);
    e.notice.why = sh_keep_text(sh, why);
    e.notice.limit_ms = limit_ms;
    sh_post(sh, &e);
}

/* A fifth of what is left, LEAVE_MS at most, is kept for the leave itself. */
static uint64_t limit_until(uint64_t when_ms, uint64_t now_ms)
{
    uint64_t left = when_ms > now_ms ? when_ms - now_ms : 0;
    return left - (left / 5 < LEAVE_MS ? left / 5 : LEAVE_MS);
}

/* Whether it is there and whole: nobody has written to it since the last look. */
static bool notice_read(struct sh *sh, char text[RLT_NOTICE_SIZE], uint64_t *out_written_ms)
{
    struct stat st;
    int         fd = open(sh->options.notice_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return false;
    bool is_read = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!is_read) { /* it is there, and that counts */
        snprintf(text, RLT_NOTICE_SIZE, "(%s)", strerrordesc_np(fd < 0 ? errno : EINVAL));
        *out_written_ms = mt_wall_ms();
    } else {
        ssize_t size = read(fd, text, RLT_NOTICE_SIZE - 1);
        text[size > 0 ? size : 0] = '\0';
        *out_written_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
    }
    if (fd >= 0)
        close(fd);
    uint64_t seen = is_read ? *out_written_ms * 31 + (uint64_t)st.st_size + 1 : 1;
    bool     is_whole = seen == sh->notice_seen;
    sh->notice_seen = seen;
    return is_whole;
}

static void look_file(struct sh *sh)
{
    char     text[RLT_NOTICE_SIZE], why[128];
    uint64_t written_ms, now = mt_wall_ms();
    if (!notice_read(sh, text, &written_ms))
        return;
    sh->is_noticed = true;
    uint64_t when = rlt_notice_time(text, written_ms < now ? written_ms : now);
    if (!when && text[0])
        mt_log(MT_LOG_WARN, "notice_without_time", "file=\"%s\" counts as=\"%" PRIu64 " ms\"", sh->options.notice_file,
               sh->options.drain_ms);
    snprintf(why, sizeof why, "its machine goes (%.90s)", sh->options.notice_file);
    tell(sh, when ? limit_until(when, now) : sh->options.drain_ms, why);
}

static void look_until(struct sh *sh)
{
    uint64_t now = mt_wall_ms(), when = sh->options.until_ms;
    if (now + sh->options.drain_ms + LEAVE_MS < when)
        return;
    sh->is_lifetime_over = true;
    tell(sh, limit_until(when, now), "its lifetime ends");
}

static void look(struct io_timer *timer)
{
    struct sh *sh = mt_container_of(timer, struct sh, notice_timer);
    if (sh->options.notice_file && !sh->is_noticed)
        look_file(sh);
    if (sh->options.until_ms && !sh->is_lifetime_over)
        look_until(sh);
    if ((sh->options.notice_file && !sh->is_noticed) || (sh->options.until_ms && !sh->is_lifetime_over))
        io_timer_start(sh->loop, timer, LOOK_MS);
}

void sh_notice_start(struct sh *sh)
{
    sh->notice_timer.fire = look;
    io_timer_start(sh->loop, &sh->notice_timer, LOOK_MS);
}

void sh_notice_stop(struct sh *sh)
{
    io_timer_stop(&sh->notice_timer);
}
