/* SPDX-License-Identifier: Apache-2.0
 *
 * reaper.c - manta-reaper: ends what a node's jobs have left, also when the raylet was killed and can't.
 *
 * usage: manta-reaper MARK GROUP|"" RECORD|"" - started by the raylet, whose pipe is its standard input. A line names a part of
 * the group whose program has ended; the end of the pipe is the raylet's.
 *
 * Owns: nothing. Thread: main. It is no member of the group, has an environment without the mark, and a session of its own: so
 * that only who means it ends it.
 */
#include "core/sys/cgroup.h"
#include "core/sys/process.h"
#include "core/base/limits/raylet.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_number(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

int main(int argc, char **argv)
{
    char line[MT_GROUP_NAME_SIZE];
    if (argc != 4)
        return 2;
    signal(SIGTERM, SIG_IGN); /* that of a whole service goes to the raylet too, and its end is ours */
    signal(SIGINT, SIG_IGN);
    mt_process_wake_at_parents_end(); /* which is what it is there for */
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (argv[2][0] && is_number(line))
            (void)mt_cgroup_end(argv[2], line, MT_RLT_GROUP_END_MS);
    }
    bool is_ended = mt_cgroup_end(argv[2], NULL, MT_RLT_GROUP_END_MS);
    if (mt_cgroup_sweep(argv[1], MT_RLT_GROUP_END_MS) == 0 && is_ended && argv[3][0])
        unlink(argv[3]); /* else who starts or stops a node in that folder next tries again */
    return 0;
}
