/* SPDX-License-Identifier: Apache-2.0
 *
 * gang_client.c - a program of a user that runs a gang by the calls of manta_client.h, on the cluster that MANTA_ADDRESS or this
 * machine's runtime folder names. Prints nothing; ends with 1 and says where on the first answer that is not what the header says.
 */
#include "clients/control/manta_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static manta_error error;

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s; the last error: %s\n", __LINE__, #what, error.message); \
            exit(1); \
        } \
    } while (0)

struct output {
    char   text[4096];
    size_t size;
};

static int keep(void *user, const manta_log *log)
{
    struct output *out = user;
    if (log->len >= sizeof out->text - out->size)
        return 1;
    memcpy(out->text + out->size, log->text, log->len);
    out->size += log->len;
    return 0;
}

static int enough(void *user, const manta_log *log)
{
    (void)user, (void)log;
    return 1;
}

/* Two ranks say who they are, and end with 0. */
static void one_that_ends(manta_client *client)
{
    static const char *const options[] = {"-n", "2", NULL}, *const argv[] = {"sh", "-c", "echo rank $MANTA_GANG_RANK $WORD", NULL};
    static const char *const env[] = {"WORD=given", NULL};
    const manta_gang         gang = {.name = "pair", .options = options, .argv = argv, .env = env};
    struct output            out = {0};
    manta_job_info           info;
    EXPECT(manta_gang_submit(client, &gang, &error) == MANTA_OK);
    EXPECT(manta_gang_follow(client, "pair", keep, &out, &error) == MANTA_OK);
    EXPECT(strstr(out.text, "rank 0 given") && strstr(out.text, "rank 1 given"));
    EXPECT(manta_gang_wait(client, "pair", MANTA_FOREVER, &info, &error) == MANTA_OK);
    EXPECT(strcmp(info.state, "SUCCEEDED") == 0 && info.exit_code == 0);
    EXPECT(manta_gang_get(client, "pair", &info, &error) == MANTA_OK);
    EXPECT(strcmp(info.name, "pair") == 0 && info.ended_ms != 0);
}

/* One that goes on until it is told to stop; its name is taken until then. */
static void one_that_is_stopped(manta_client *client)
{
    static const char *const argv[] = {"sh", "-c", "echo up; exec sleep 600", NULL};
    const manta_gang         gang = {.name = "sleeper", .argv = argv};
    manta_job_info           info, *jobs;
    size_t                   count;
    EXPECT(manta_gang_submit(client, &gang, &error) == MANTA_OK);
    EXPECT(manta_gang_submit(client, &gang, &error) == MANTA_EEXIST);
    EXPECT(manta_gang_follow(client, "sleeper", enough, NULL, &error) == MANTA_ECANCELLED); /* it has printed: it runs */
    EXPECT(manta_gang_get(client, "sleeper", &info, &error) == MANTA_OK);
    EXPECT(strcmp(info.state, "RUNNING") == 0 && info.ended_ms == 0);
    EXPECT(manta_gang_wait(client, "sleeper", 0, &info, &error) == MANTA_ETIMEDOUT);
    EXPECT(manta_gang_list(client, &jobs, &count, &error) == MANTA_OK);
    EXPECT(count == 2 && strcmp(jobs[0].name, "sleeper") == 0 && strcmp(jobs[1].name, "pair") == 0);
    free(jobs);
    EXPECT(manta_gang_stop(client, "sleeper", &error) == MANTA_OK);
    EXPECT(manta_gang_wait(client, "sleeper", MANTA_FOREVER, &info, &error) == MANTA_OK);
    EXPECT(strcmp(info.state, "STOPPED") == 0);
}

static void names_that_are_none(manta_client *client)
{
    static const char *const argv[] = {"true", NULL};
    const manta_gang         gang = {.name = "a b", .argv = argv}, empty = {.name = "empty"};
    manta_job_info           info;
    EXPECT(manta_gang_submit(client, &gang, &error) == MANTA_EINVAL);
    EXPECT(manta_gang_submit(client, &empty, &error) == MANTA_EINVAL);
    EXPECT(manta_gang_get(client, "a b", &info, &error) == MANTA_EINVAL);
    EXPECT(manta_gang_get(client, "nobody", &info, &error) == MANTA_ENOENT);
    EXPECT(strstr(error.message, "no gang is named nobody"));
    EXPECT(manta_gang_follow(client, NULL, keep, NULL, &error) == MANTA_EINVAL);
    EXPECT(manta_gang_wait(client, "nobody", 0, NULL, &error) == MANTA_ENOENT);
    EXPECT(manta_gang_stop(client, "nobody", &error) == MANTA_ENOENT);
    EXPECT(manta_gang_get(NULL, "pair", &info, &error) == MANTA_EINVAL);
}

int main(void)
{
    manta_client *client = manta_client_open(NULL, &error);
    EXPECT(client);
    one_that_ends(client);
    one_that_is_stopped(client);
    names_that_are_none(client);
    manta_client_close(client);
    return 0;
}
