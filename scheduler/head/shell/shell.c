/* SPDX-License-Identifier: Apache-2.0
 *
 * shell.c - makes the daemon's parts, runs the core, and takes everything down again.
 *
 * Owns:    struct shell and what main made for it.
 * Thread:  the main loop's.
 */
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"

#include "core/io/private.h"
#include "core/sys/file.h"
#include "core/sys/folder.h"
#include "core/base/log.h"
#include "scheduler/head/shell/run.h"
#include "core/base/limits/lib.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- actions ---- */

static void announce(struct shell *sh);
static void take_over(struct shell *sh);
static void write_heads(struct shell *sh);

static void provided(void *user, const struct head_provided *answer)
{
    struct head_event event = {.kind = HEAD_EV_PROVIDED, .provided = *answer};
    head_shell_step(user, &event);
}

static void provide(struct shell *sh, const struct head_action *action)
{
    if (!sh->provider)
        sh->provider = head_provider_new(sh->loop, head_cluster(sh->head), sh->address_file, provided, sh);
    mt_buf    join = {0};
    mt_status st = action->provide.ticket.id ? head_shell_ticket(sh, &action->provide.ticket, &join) : mt_ok();
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "no_ticket_for_instance", st); /* it will not join, and is told of as such */
    if (sh->provider)
        head_provider_order(sh->provider, action, mt_buf_view(&join));
    io_private_wipe(&join);
    if (!sh->provider)
        head_shell_end(sh, mt_error(MT_ENOMEM, 0, "make the provider's part"));
}

static void act(struct shell *sh, struct head_action *action)
{
    switch (action->kind) {
    case HEAD_ACT_SEND: head_shell_send(sh, action); break;
    case HEAD_ACT_CLOSE: head_shell_close(sh, action); break;
    case HEAD_ACT_REPLY:
    case HEAD_ACT_REFUSE: head_shell_reply(sh, action); break;
    case HEAD_ACT_STORE: head_shell_store_batch(sh, action); break;
    case HEAD_ACT_LOG_APPEND: head_shell_log_append(sh, action); break;
    case HEAD_ACT_LOG_DROP: head_shell_log_drop(sh, action->job.id); break;
    case HEAD_ACT_JOB_ENDED: head_shell_feed_wake(sh, action->job.id); break;
    case HEAD_ACT_BLOB_DROP: head_shell_blob_drop(sh, action->blob_drop.sha256); break;
    case HEAD_ACT_PROVIDE: provide(sh, action); break;
    case HEAD_ACT_TOKENS: head_shell_tokens(sh, action->tokens.items, action->tokens.count); break;
    case HEAD_ACT_REVOKED: head_shell_revoked(sh, action->revoked.id, action->revoked.until_ms); break;
    case HEAD_ACT_EXIT:
        if (action->exit.status.code == 0)
            head_shell_heads_shutdown(sh); /* the cluster ends */
        head_shell_end(sh, action->exit.status);
        break;
    }
}

/* Carrying an action out may step again: what follows from that comes after what is in the list already. The items move
 * when the list grows, so each is worked on as a copy that is put back. */
static void carry_out(struct shell *sh)
{
    if (sh->doubt_ms) { /* this process stood still, and another head may lead: nothing leaves before the store has answered */
        head_shell_store_ask(sh);
        return;
    }
    announce(sh);
    for (size_t i = 0; i < sh->actions.count; i++) {
        struct head_action action = sh->actions.items[i];
        act(sh, &action);
        sh->actions.items[i] = action;
    }
    head_actions_clear(&sh->actions);
    head_shell_send_said(sh);
    announce(sh); /* perhaps the ticket for the join file was among them */
    if (sh->is_ending)
        return;
    uint64_t now = io_now_ms(), next = sh->actions.next_ms;
    if (io_timer_is_started(&sh->timer) && next == sh->timer_ms)
        return;
    sh->timer_ms = next;
    io_timer_start(sh->loop, &sh->timer, next > now ? next - now : 1);
}

static void round_ends(struct io_tick *tick)
{
    struct shell *sh = mt_container_of(tick, struct shell, round);
    if (sh->claimed && !sh->is_ending)
        take_over(sh);
    if (sh->head)
        carry_out(sh);
    if (sh->is_heads_new && sh->is_ready && !sh->is_ending)
        write_heads(sh);
}

static void tick(struct io_timer *timer)
{
    struct shell     *sh = mt_container_of(timer, struct shell, timer);
    struct head_event event = {.kind = HEAD_EV_TICK};
    head_shell_step(sh, &event);
    head_shell_heads_beat(sh);
}

static void end_by_signal(struct io_signal *signal, int number)
{
    (void)signal;
    mt_log(MT_LOG_INFO, "signal", "number=%d", number);
}
static void on_term(struct io_signal *signal, int number)
{
    end_by_signal(signal, number);
    head_shell_end(mt_container_of(signal, struct shell, on_term), mt_ok());
}
static void on_int(struct io_signal *signal, int number)
{
    end_by_signal(signal, number);
    head_shell_end(mt_container_of(signal, struct shell, on_int), mt_ok());
}

/* Works for the end of a pipe or a socket, and for a pidfd, which is readable once its process is gone. */
static void watched(struct io_watch *watch, unsigned events)
{
    struct shell *sh = mt_container_of(watch, struct shell, watch);
    char          bytes[64];
    ssize_t       n = read(sh->options.watch_fd, bytes, sizeof bytes);
    if (sh->is_ending || (!(events & IO_HANGUP) && (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))))
        return;
    mt_log(MT_LOG_INFO, "driver_gone", "");
    sh->is_driver_gone = true;
    head_shell_end(sh, mt_ok());
}

/* ---- the address ---- */

static mt_status write_address(struct shell *sh)
{
    char next[SHELL_PATH_SIZE + 8], tls[SHELL_PATH_SIZE + 32], heads[MT_HEADS_MAX * HEAD_PLACE_SIZE];
    char text[2 * SHELL_PATH_SIZE + sizeof heads + 256];
    snprintf(next, sizeof next, "%s.new", sh->address_file);
    head_shell_tls_line(sh, tls, sizeof tls);
    head_shell_heads_line(sh, heads, sizeof heads);
    MT_TRY(head_shell_join_write(sh));
    int  size = snprintf(text, sizeof text, "%s\ntoken_file=%s\n%sheads=%s\npid=%d\n", sh->address, sh->token_file, tls, heads,
                         getpid());
    int  fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_fine = fd >= 0 && write(fd, text, (size_t)size) == size;
    if (fd >= 0)
        is_fine = close(fd) == 0 && is_fine;
    if (is_fine && rename(next, sh->address_file) == 0)
        return mt_ok();
    return mt_error(MT_ESYS, errno, "write the head's address");
}

static void write_heads(struct shell *sh)
{
    sh->is_heads_new = false;
    mt_status st = write_address(sh);
    if (st.code)
        mt_log_status(MT_LOG_WARN, "write_heads", st); /* they are found by the older list, or by asking */
}

/* Whoever started this head is told that it answers. */
static void say_ready(struct shell *sh)
{
    char line[96];
    int  size = snprintf(line, sizeof line, "%s:%u\n", sh->options.host, rpc_server_port(sh->server));
    if (sh->options.ready_fd < 0)
        return;
    if (write(sh->options.ready_fd, line, (size_t)size) != size)
        mt_log(MT_LOG_WARN, "ready_fd", "nobody reads it");
    close(sh->options.ready_fd);
    sh->options.ready_fd = -1;
}

/* Once the new epoch is stored, and the ticket of the join file: from then on we speak for the cluster. */
static void announce(struct shell *sh)
{
    if (!sh->is_stored || sh->is_ready || sh->is_ending)
        return;
    if (sh->join == SHELL_JOIN_NONE)
        head_shell_join_begin(sh);
    if (sh->join != SHELL_JOIN_DONE)
        return;
    sh->is_ready = true;
    mt_status st = write_address(sh);
    if (st.code != 0) {
        head_shell_end(sh, head_shell_complain(st, "can't write", sh->address_file));
        return;
    }
    mt_log(MT_LOG_INFO, "head_up", "address=%s cluster=%s epoch=%llu", sh->address, head_cluster(sh->head),
           (unsigned long long)head_epoch(sh->head));
    say_ready(sh);
}

/* ---- making the parts ---- */

static mt_status make_folder(const struct shell *sh, const char *path)
{
    if (head_shell_mkdir(sh, path) == 0 || errno == EEXIST)
        return mt_ok();
    return head_shell_complain(mt_error(MT_ESYS, errno, "make it"), "folder", path);
}

static bool path_fits(int size)
{
    return size > 0 && size < SHELL_PATH_SIZE - 128; /* room for folders and names */
}

static mt_status make_paths(struct shell *sh)
{
    const struct head_options *o = &sh->options;
    char                       dir[SHELL_PATH_SIZE];
    MT_TRY(make_folder(sh, o->dir));
    mt_status st = sh->is_private ? mt_folder_hold(o->dir, &sh->folder_hold) : mt_ok();
    if (st.code != 0)
        return head_shell_complain(st, "folder", o->dir);
    if (!realpath(o->dir, dir))
        return head_shell_complain(mt_error(MT_ESYS, errno, "find it"), "folder", o->dir);
    bool fits = path_fits(o->logs ? (int)strlen(o->logs) : 1) &&
                path_fits(snprintf(sh->address_file, sizeof sh->address_file, "%s/head.addr", dir)) &&
                path_fits(o->state ? snprintf(sh->state, sizeof sh->state, "%s", o->state)
                                   : snprintf(sh->state, sizeof sh->state, "%s/state", dir)) &&
                path_fits(o->tls_dir ? snprintf(sh->tls_dir, sizeof sh->tls_dir, "%s", o->tls_dir)
                                     : snprintf(sh->tls_dir, sizeof sh->tls_dir, "%s/tls", dir)) &&
                path_fits(snprintf(sh->join_file, sizeof sh->join_file, "%s/join", dir)) &&
                path_fits(o->token_file ? snprintf(sh->token_file, sizeof sh->token_file, "%s", o->token_file)
                                        : snprintf(sh->token_file, sizeof sh->token_file, "%s/token", dir));
    if (!fits)
        return head_shell_complain(mt_error(MT_EINVAL, 0, "a path is too long"), "folder", o->dir);
    return make_folder(sh, sh->state);
}

static mt_status make_token(struct shell *sh)
{
    mt_status st = io_token_read(sh->token_file, &sh->token);
    if (st.code == MT_ENOENT && sh->standby) {
        st = mt_error(MT_ENOENT, 0, "one that stands by wants the cluster's token: a copy of the leader's file, mode 0600");
    } else if (st.code == MT_ENOENT) {
        st = io_token_make(sh->token_file, &sh->token);
        sh->has_made_token = st.code == 0;
        if (st.code == MT_EEXIST) /* somebody was quicker */
            st = io_token_read(sh->token_file, &sh->token);
        else if (st.code == 0 && !sh->is_private)
            (void)mt_name_sync(sh->token_file); /* as in head_shell_mkdir */
    }
    return st.code == 0 ? st : head_shell_complain(st, "token file", sh->token_file);
}

/* The port of the last run, kept in the state folder: raylets and clients that know it find us there again. */
static uint16_t last_port(const struct shell *sh)
{
    char     path[SHELL_PATH_SIZE];
    unsigned port = 0;
    head_shell_path(sh, "", "port", path);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%5u", &port) != 1)
        port = 0;
    if (file)
        fclose(file);
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

static void keep_port(const struct shell *sh)
{
    char path[SHELL_PATH_SIZE];
    head_shell_path(sh, "", "port", path);
    FILE *file = fopen(path, "we");
    if (!file || fprintf(file, "%u\n", rpc_server_port(sh->server)) < 0)
        mt_log(MT_LOG_WARN, "keep_port", "the next start may take another port");
    if (file)
        fclose(file);
}

static mt_status open_server(struct shell *sh)
{
    struct rpc_server_config config = {.host = sh->options.host,
                                       .port = sh->options.port,
                                       .token = &sh->token,
                                       .tls = sh->tls,
                                       .is_insecure = sh->options.is_insecure,
                                       .has_tokens = true};
    if (config.port == 0 && (config.port = last_port(sh)) != 0) {
        if (rpc_server_open(sh->rpc, &sh->service, &config, &sh->server).code == 0)
            return mt_ok();
        config.port = 0; /* somebody else has it now */
    }
    MT_TRY(rpc_server_open(sh->rpc, &sh->service, &config, &sh->server));
    keep_port(sh);
    return mt_ok();
}

static mt_status make_server(struct shell *sh)
{
    mt_status st = rpc_new(sh->loop, &sh->rpc);
    if (st.code != 0)
        return head_shell_complain(st, "can't start", "gRPC");
    head_shell_rpc_init(sh);
    st = open_server(sh);
    if (st.code)
        return head_shell_complain(st, "can't listen on", sh->options.host);
    bool is_v6 = strchr(sh->options.host, ':') != NULL;
    snprintf(sh->address, sizeof sh->address, "%s%s%s:%u", is_v6 ? "[" : "", sh->options.host, is_v6 ? "]" : "",
             rpc_server_port(sh->server));
    if (!sh->is_private) /* one node, or few: what they say costs nothing */
        head_shell_beats_open(sh);
    return st;
}

static mt_status watch_world(struct shell *sh)
{
    sh->on_term.caught = on_term;
    sh->on_int.caught = on_int;
    sh->watch.ready = watched;
    sh->timer.fire = tick;
    sh->round.run = round_ends;
    io_loop_set_tick(sh->loop, &sh->round);
    MT_TRY(io_signal_start(sh->loop, &sh->on_term, SIGTERM));
    MT_TRY(io_signal_start(sh->loop, &sh->on_int, SIGINT));
    return sh->is_private ? io_watch_start(sh->loop, &sh->watch, sh->options.watch_fd, IO_READABLE) : mt_ok();
}

static mt_status open_files(struct shell *sh)
{
    sh->owns_state = true;
    mt_status st = head_shell_files_open(sh);
    return st.code == 0 ? st : head_shell_complain(st, "state folder", sh->state);
}

/* By which others speak to this head, whether it leads or stands by. */
static mt_status open_doors(struct shell *sh)
{
    MT_TRY(make_token(sh));
    MT_TRY(head_shell_tls_open(sh));
    MT_TRY(make_server(sh));
    mt_status st = watch_world(sh);
    return st.code == 0 ? st : head_shell_complain(st, "can't watch", "signals and --watch-fd");
}

static mt_status lead(struct shell *sh)
{
    snprintf(sh->store->place, sizeof sh->store->place, "%s", sh->address);
    head_own_member(sh->head, sh->own_member);
    MT_TRY(head_start(sh->head, io_now_ms(), &sh->actions));
    head_shell_heads_tell(sh);
    carry_out(sh);
    return mt_ok();
}

static mt_status stand_by(struct shell *sh)
{
    MT_TRY(head_shell_standby_open(sh));
    MT_TRY(open_doors(sh));
    sh->is_ready = true; /* it answers, by saying who leads */
    mt_status st = write_address(sh);
    if (st.code != 0)
        return head_shell_complain(st, "can't write", sh->address_file);
    head_shell_standby_begin(sh);
    say_ready(sh);
    return mt_ok();
}

static mt_status start(struct shell *sh)
{
    MT_TRY(make_paths(sh));
    MT_TRY(io_loop_new(&sh->loop));
    if (sh->options.is_standby)
        return stand_by(sh);
    mt_status st = head_shell_store_open(sh);
    if (st.code == MT_ENOTLEADER && head_shell_has_led(sh))
        return stand_by(sh); /* another took over while this one was dead */
    MT_TRY(st);
    head_role_init(sh->role, true);
    snprintf(sh->cluster, sizeof sh->cluster, "%s", head_cluster(sh->head));
    MT_TRY(open_files(sh));
    MT_TRY(open_doors(sh));
    return lead(sh);
}

/* The store has given this head the lead. */
static void take_over(struct shell *sh)
{
    struct head_store *store = sh->claimed;
    uint64_t           begun = io_now_ms();
    sh->claimed = NULL;
    sh->is_ready = false; /* until the epoch is stored */
    head_shell_standby_end(sh);
    mt_status st = head_shell_store_take(sh, store);
    if (st.code == 0)
        st = open_files(sh);
    if (st.code == 0)
        st = lead(sh);
    mt_log(MT_LOG_INFO, "took_over", "fence=%llu code=%s in_ms=%llu", (unsigned long long)store->fence, mt_code_name(st.code),
           (unsigned long long)(io_now_ms() - begun));
    if (st.code != 0)
        head_shell_end(sh, st);
}

/* ---- the end ---- */

/* Each part ends before what it still uses as it finishes: the commit under way answers callers and writes
 * logs, so the store's thread goes first; streams that are cut off may have a file in work; the files' thread
 * uses nobody. */
static void stop(struct shell *sh)
{
    sh->is_ending = true;
    io_timer_stop(&sh->timer);
    io_watch_stop(&sh->watch);
    io_signal_stop(&sh->on_term);
    io_signal_stop(&sh->on_int);
    head_shell_store_finish(sh);
    if (sh->head && sh->end_status.code == 0 && sh->doubt_ms == 0)
        carry_out(sh); /* else another may lead: what is noted was not for us to say */
    head_actions_clear(&sh->actions);
    head_provider_free(sh->provider);
    sh->provider = NULL;
    if (sh->claimed)
        sh->claimed->ops->close(sh->claimed);
    head_shell_standby_end(sh);
    io_beats_close(&sh->beats);
    if (sh->server)
        rpc_server_close(sh->server);
    if (sh->files)
        io_worker_free(sh->files);
    head_shell_store_close(sh);
    if (sh->rpc)
        rpc_free(sh->rpc);
    MT_MAP_EACH(&sh->calls, entry)
        free(entry->value.ptr);
    mt_map_fini(&sh->calls);
    mt_map_fini(&sh->attached);
    head_actions_fini(&sh->actions);
    head_free(sh->head);
    free(sh->tokens);
    head_shell_tls_close(sh);
    if (sh->loop)
        io_loop_free(sh->loop);
    io_token_wipe(&sh->token);
}

/* The runtime folder is left as it was found. */
static void remove_files(struct shell *sh)
{
    if (sh->is_ready && !sh->is_going_on)
        unlink(sh->address_file);
    if (sh->is_ready && !sh->is_going_on && sh->tls)
        unlink(sh->join_file);
    if (!sh->is_private || !sh->owns_state)
        return;
    head_shell_files_remove(sh);
    if (sh->has_made_token)
        unlink(sh->token_file);
}

/* Whether another head leads now that this one has stepped down, or was followed: then this one stands by for that. */
static bool is_followed(const struct shell *sh)
{
    return sh->role->state == HEAD_HANDING ||
           (sh->options.is_standby && sh->role->state == HEAD_LEADING && sh->end_status.code == MT_EFENCED);
}

/* One life, from the start of all parts to their end. False: this head goes on, as one that stands by. */
static bool live(struct head_options *options, struct head_role *role, int *out_exit)
{
    struct shell *sh = calloc(1, sizeof *sh);
    *out_exit = 1;
    if (!sh)
        return true;
    sh->options = *options;
    sh->role = role;
    sh->is_private = options->watch_fd >= 0;
    sh->folder_hold = -1;
    sh->runs_as_root = geteuid() == 0;
    mt_status st = start(sh);
    if (st.code == 0) {
        io_loop_run(sh->loop);
        st = sh->end_status;
        if (st.code != 0)
            fprintf(stderr, "manta-head: ends: %s: %s\n", mt_code_text(st.code), st.what);
    }
    uint64_t run = sh->store ? sh->store->run : 0;
    sh->is_going_on = is_followed(sh);
    if (sh->is_going_on)
        head_role_followed(role, run, io_now_ms());
    stop(sh);
    remove_files(sh);
    options->is_standby |= sh->is_going_on;
    options->ready_fd = -1;
    *out_exit = st.code == 0 ? 0 : 1;
    bool is_over = !sh->is_going_on;
    if (sh->folder_hold >= 0)
        mt_folder_leave(sh->options.dir, sh->folder_hold, sh->is_driver_gone ? MT_FOLDER_LEAVE_MS : 0);
    free(sh);
    return is_over;
}

int head_run(const struct head_options *options)
{
    struct head_options own = *options;
    struct head_role    role;
    int                 status;
    head_role_init(&role, false);
    while (!live(&own, &role, &status)) {
    }
    return status;
}
