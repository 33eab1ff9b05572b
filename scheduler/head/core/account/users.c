/* SPDX-License-Identifier: Apache-2.0
 *
 * users.c - what users may have at a time, and how much each one's share weighs.
 *
 * Always:  what a user's jobs wish and how many wait or run is counted at each change of a job's state; a bound never ends what
 *          runs.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/account/private.h"

#include "core/base/plant.h"
#include "core/text/amounts.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- bounds, in words ---- */

static const struct {
    const char *key, *what;
    uint64_t    unit; /* of what people write */
} bounds[USER_BOUNDS] = {
    [USER_CPU] = {"cpus", "CPUs", 1000},
    [USER_GPU] = {"gpus", "GPUs", 1000},
    [USER_MEMORY] = {"memory", "bytes of memory", 1},
    [USER_RUNNING] = {"running", "running jobs", 1},
    [USER_WAITING] = {"waiting", "waiting jobs", 1},
};

static void say_amount(enum user_bound which, uint64_t amount, char *out, size_t size)
{
    uint64_t unit = bounds[which].unit;
    snprintf(out, size, amount % unit ? "%.3f" : "%.0f", (double)amount / (double)unit);
}

/* ---- what a user's jobs have ---- */

static uint64_t wish_of(const job_spec *spec, enum user_bound which)
{
    static const char *const names[] = {[USER_CPU] = "CPU", [USER_GPU] = "GPU", [USER_MEMORY] = "memory"};
    for (size_t i = 0; i < spec->n_resources; i++)
        if (strcmp(spec->resources[i]->name, names[which]) == 0)
            return (uint64_t)spec->resources[i]->milli;
    return 0;
}

static void count(struct job *job, enum job_state state, bool comes)
{
    struct account *a = job->account;
    uint64_t        one = comes ? 1 : (uint64_t)-1;
    if (!a)
        return;
    if (state == JOB_PENDING)
        a->wished[USER_WAITING] += one;
    if (state != JOB_STARTING && state != JOB_RUNNING)
        return;
    a->wished[USER_RUNNING] += one;
    for (int i = 0; i < USER_RUNNING; i++)
        a->wished[i] += one * wish_of(job->spec, (enum user_bound)i);
}

/* Where there are too many accounts, several users have one. */
void head_users_enter(struct head *h, struct job *job, const char *user)
{
    job->account = head_account_of(h, user);
    job->user = job->account && strcmp(job->account->user, user) == 0 ? job->account->user : head_strdup(h, user);
    count(job, job->state, true);
}

void head_users_moved(struct job *job, enum job_state from)
{
    count(job, from, false);
    count(job, job->state, true);
}

void head_users_leave(struct job *job)
{
    count(job, job->state, false);
    if (!job->account || job->user != job->account->user)
        free((char *)(uintptr_t)job->user);
    job->user = NULL;
    job->account = NULL;
}

/* By what his jobs wish, or by what the nodes have said that all that is his holds: the tasks of his drivers too. */
static uint64_t has_now(const struct account *a, enum user_bound which)
{
    uint64_t measured = which < USER_RUNNING && !MT_PLANT(MT_PLANT_QUOTA_DRIVERS) ? a->measured[which] : 0;
    return a->wished[which] > measured ? a->wished[which] : measured;
}

/* ---- judgements ---- */

bool head_users_may_start(const struct job *job, char *why, size_t size)
{
    const struct account *a = job->account;
    char                  has[32], most[32];
    for (int i = 0; a && i <= USER_RUNNING; i++) {
        enum user_bound which = (enum user_bound)i;
        if (a->bounds[which] == USER_NO_BOUND)
            continue;
        uint64_t wants = which == USER_RUNNING ? 1 : wish_of(job->spec, which), now = has_now(a, which);
        if (wants == 0 || now + wants <= a->bounds[which])
            continue;
        say_amount(which, now, has, sizeof has);
        say_amount(which, a->bounds[which], most, sizeof most);
        snprintf(why, size, "waits since %.64s has %s of the %s %s that this user may have at a time (manta user list)", a->user,
                 has, most, bounds[which].what);
        return false;
    }
    return true;
}

int32_t head_users_may_submit(const struct head *h, const char *user, const job_spec *spec, uint32_t count_new, char *text,
                              size_t size)
{
    const struct account *a = head_account_find(h, user);
    char                  wish[32], most[32];
    if (!a)
        return MT_OK;
    for (int i = 0; i <= USER_WAITING; i++) {
        enum user_bound which = (enum user_bound)i;
        uint64_t        wants = i == USER_WAITING ? count_new : i == USER_RUNNING ? 1 : wish_of(spec, which);
        if (a->bounds[i] == USER_NO_BOUND || wants <= a->bounds[i])
            continue;
        say_amount(which, wants, wish, sizeof wish);
        say_amount(which, a->bounds[i], most, sizeof most);
        snprintf(
            text, size,
            "%.64s may have %s %s at a time, and this wants %s: it could never start. An admin may change that: manta user set",
            user, most, bounds[i].what, wish);
        return MT_EUNSCHEDULABLE;
    }
    if (a->bounds[USER_WAITING] == USER_NO_BOUND || a->wished[USER_WAITING] + count_new <= a->bounds[USER_WAITING])
        return MT_OK;
    snprintf(text, size, "%.64s has %" PRIu64 " jobs that wait, and may have %" PRIu64 ": try again when some have started", user,
             a->wished[USER_WAITING], a->bounds[USER_WAITING]);
    return MT_EAGAIN;
}

/* ---- what must always hold ---- */

const char *head_users_check(const struct head *h)
{
    uint64_t running = 0, waiting = 0;
    for (const struct head_index_node *at = h->account.users.first; at; at = at->next) {
        const struct account *a = mt_container_of(at, struct account, at);
        running += a->wished[USER_RUNNING];
        waiting += a->wished[USER_WAITING];
    }
    return running == h->placed.count && running + waiting == h->jobs_active ? NULL
                                                                             : "users have more jobs than there are, or fewer";
}

/* ---- settings ---- */

/* "16", "0.5", "64G", "none". False: it is none of these, or would be rounded to nothing. */
static bool read_amount(enum user_bound which, const char *text, uint64_t *out)
{
    char  *end;
    double value;
    if (strcmp(text, "none") == 0) {
        *out = USER_NO_BOUND;
        return true;
    }
    if (!(text[0] >= '0' && text[0] <= '9'))
        return false;
    value = strtod(text, &end);
    static const char units[] = "KMGT";
    const char       *unit = which == USER_MEMORY && *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
        value *= 1024;
    end += unit != NULL;
    if (bounds[which].unit == 1000 && mt_amount_wrong("CPU", value))
        return false;
    value *= (double)bounds[which].unit;
    if (*end || !(value <= 1e18) || (bounds[which].unit == 1 && value != (double)(uint64_t)value))
        return false;
    *out = (uint64_t)(value + 0.5);
    return true;
}

static int32_t read_setting(const char *text, struct account *a, char *out_text, size_t size)
{
    size_t      key = strcspn(text, "=");
    const char *value = text + key + (text[key] == '=');
    uint64_t    weight;
    for (int i = 0; i < USER_BOUNDS; i++) {
        if (strlen(bounds[i].key) != key || strncmp(bounds[i].key, text, key) != 0)
            continue;
        if (read_amount((enum user_bound)i, value, &a->bounds[i]))
            return MT_OK;
        snprintf(out_text, size, "\"%.80s\": %s=N is wanted, %s, or %s=none", text, bounds[i].key,
                 bounds[i].unit == 1000 ? "0 or from 0.001 to 1e12" : "a whole number", bounds[i].key);
        return MT_EINVAL;
    }
    if (key == 6 && strncmp(text, "weight", 6) == 0 && read_amount(USER_CPU, value, &weight) && weight <= 1000000000) {
        a->weight_milli = weight;
        return MT_OK;
    }
    snprintf(out_text, size,
             "\"%.80s\": weight=N (0, or 0.001 to 1000000), or cpus, gpus, memory, running, waiting=N (or none) is wanted", text);
    return MT_EINVAL;
}

/* In the store's and the wire's form one more than it is, so that nothing said is no bound. */
static void fill(const struct head *h, const struct account *a, Manta__V1__User *out)
{
    *out = (Manta__V1__User)MANTA__V1__USER__INIT;
    out->name = (char *)(uintptr_t)a->user;
    out->weight_milli = a->weight_milli;
    out->cpu_milli = a->bounds[USER_CPU] + 1;
    out->gpu_milli = a->bounds[USER_GPU] + 1;
    out->memory = a->bounds[USER_MEMORY] + 1;
    out->running = a->bounds[USER_RUNNING] + 1;
    out->waiting = a->bounds[USER_WAITING] + 1;
    out->usage = head_account_usage_now(h, a);
    out->cpu_milli_now = has_now(a, USER_CPU);
    out->gpu_milli_now = has_now(a, USER_GPU);
    out->memory_now = has_now(a, USER_MEMORY);
    out->running_now = a->wished[USER_RUNNING];
    out->waiting_now = a->wished[USER_WAITING];
}

static bool is_name(const char *name)
{
    return name[0] && strlen(name) < HEAD_NAME_SIZE &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-") == strlen(name);
}

void head_users_set(struct head *h, uint64_t call, const Manta__V1__SetUserRequest *request)
{
    Manta__V1__SetUserReply reply = MANTA__V1__SET_USER_REPLY__INIT;
    Manta__V1__User         user;
    char                    text[HEAD_TEXT_SIZE] = "";
    struct account         *a = is_name(request->name) ? head_account_of(h, request->name) : NULL, next;
    reply.text = text;
    if (!a || strcmp(a->user, request->name) != 0) {
        reply.code = a ? MT_EAGAIN : MT_EINVAL;
        snprintf(text, sizeof text,
                 a ? "there are %d users already" : "a user's name is that of a token: 1 to 63 letters, digits, or . _ - @",
                 MT_HEAD_ACCOUNTS_MAX);
    } else if (!head_has_room(h, 1024)) {
        snprintf(text, sizeof text, "%s", head_room_refusal(h).what);
        reply.code = head_room_refusal(h).code;
    } else {
        next = *a; /* all of them, or none */
        for (size_t i = 0; i < request->n_settings && !reply.code; i++)
            reply.code = read_setting(request->settings[i], &next, text, sizeof text);
        if (!reply.code) {
            a->weight_milli = next.weight_milli;
            memcpy(a->bounds, next.bounds, sizeof a->bounds);
            fill(h, a, &user);
            head_account_store_settings(h, a, &user);
        }
        fill(h, a, &user);
        reply.user = &user;
    }
    head_out_reply(h, call, HEAD_SET_USER, &reply.base);
}

static bool is_of_interest(const struct account *a)
{
    bool is = a->usage > 0 || a->weight_milli != 1000 || a->wished[USER_RUNNING] || a->wished[USER_WAITING];
    for (int i = 0; i < USER_BOUNDS; i++)
        is |= a->bounds[i] != USER_NO_BOUND;
    return is;
}

void head_users_list(struct head *h, uint64_t call)
{
    Manta__V1__ListUsersReply reply = MANTA__V1__LIST_USERS_REPLY__INIT;
    Manta__V1__User          *items = calloc(h->account.users.count + 1, sizeof *items);
    reply.users = calloc(h->account.users.count + 1, sizeof(Manta__V1__User *));
    double all = 0;
    for (struct head_index_node *at = h->account.users.first; at && items && reply.users; at = at->next) {
        const struct account *a = mt_container_of(at, struct account, at);
        if (!is_of_interest(a))
            continue;
        fill(h, a, &items[reply.n_users]);
        items[reply.n_users].share = a->weight_milli ? items[reply.n_users].usage / (double)a->weight_milli : 0;
        all += items[reply.n_users].share;
        reply.users[reply.n_users] = &items[reply.n_users];
        reply.n_users++;
    }
    for (size_t i = 0; i < reply.n_users; i++)
        reply.users[i]->share = all > 0 ? reply.users[i]->share / all : 0;
    if (items && reply.users)
        head_out_reply(h, call, HEAD_LIST_USERS, &reply.base);
    else
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the users"));
    free(items);
    free(reply.users);
}
