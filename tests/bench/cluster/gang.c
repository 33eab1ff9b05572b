/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.c - see gang.h.
 *
 *   head <-- raylet "home" <-- manta-run, again and again
 *        <-- raylets n1, n2, n3 of one CPU each (gang_chaos)
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/gang.h"

#include "tests/bench/cluster/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GANGS = 1000, AT_ONCE = 64, MPI_RUNS = 20, BARRIERS = 200, KILLS = 10, CHAOS = 20, NODES = 3, LIMIT_MS = 60000 };

struct gangs {
    struct rig_folder folder;
    pid_t             head, home, nodes[NODES];
};

static bool begin(struct gangs *g, const char *cpus)
{
    char home[RIG_PATH];
    if (!rig_folder_make(&g->folder) || (g->head = rig_head(&g->folder)) < 0)
        return false;
    snprintf(home, sizeof home, "%.63s/home", g->folder.dir);
    setenv("MANTA_ADDRESS", home, 1);
    return (g->home = rig_raylet(&g->folder, &(struct rig_raylet){.name = "home", .cpus = cpus}, -1)) > 0;
}

static bool end(struct gangs *g, bool ok)
{
    for (int i = 0; i < NODES; i++)
        rig_end(&g->nodes[i], SIGKILL);
    rig_end(&g->home, SIGTERM);
    rig_end(&g->head, SIGTERM);
    unsetenv("MANTA_ADDRESS");
    if (ok)
        rig_folder_remove(&g->folder);
    return ok;
}

/* ---- programs ---- */

struct program {
    pid_t pid;
    int   out;
    char  text[4096]; /* what was read and not yet taken */
    int   size;
};

/* Its standard output comes here where `out` is not NULL. */
static pid_t start(const char *const *words, int *out)
{
    int pipes[2] = {-1, -1};
    if (out && pipe2(pipes, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out ? pipes[1] : null, 1);
        if (out)
            dup2(null, 2); /* its words about restarts */
        execvp(words[0], (char **)(uintptr_t)words);
        _exit(127);
    }
    if (out) {
        close(pipes[1]);
        *out = pipes[0];
    }
    return pid;
}

static bool succeeds(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* In ms; < 0: one has failed. */
static double many(const char *const *words, int count, int at_once)
{
    double begun = rig_now_ms();
    int    running = 0;
    bool   ok = true;
    for (int i = 0; i < count || running > 0;) {
        if (i < count && running < at_once) {
            ok = start(words, NULL) > 0 && ok;
            i++, running++;
            continue;
        }
        int status = -1;
        ok = wait(&status) > 0 && status == 0 && ok;
        running--;
    }
    return ok ? rig_now_ms() - begun : -1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int count)
{
    qsort(of, (size_t)count, sizeof *of, by_size);
    return of[count / 2];
}

struct pair {
    double ours, theirs; /* ms; < 0: one has failed */
};

/* Two commands in turn, so that both meet the same machine: the median of each. */
static struct pair in_turn(const char *const *ours, const char *const *theirs)
{
    double      took[2][MPI_RUNS];
    struct pair none = {-1, -1};
    for (int i = 0; i < MPI_RUNS; i++) {
        took[0][i] = many(ours, 1, 1);
        took[1][i] = many(theirs, 1, 1);
        if (took[0][i] < 0 || took[1][i] < 0)
            return none;
    }
    return (struct pair){median(took[0], MPI_RUNS), median(took[1], MPI_RUNS)};
}

/* The next line; false: none came in time. */
static bool line_of(struct program *p, char *out, size_t size)
{
    double until = rig_now_ms() + LIMIT_MS;
    for (;;) {
        char *newline = memchr(p->text, '\n', (size_t)p->size);
        if (newline) {
            int length = (int)(newline - p->text);
            snprintf(out, size, "%.*s", length, p->text);
            p->size -= length + 1;
            memmove(p->text, newline + 1, (size_t)p->size);
            return true;
        }
        struct pollfd wait = {p->out, POLLIN, 0};
        ssize_t       n = rig_now_ms() < until && poll(&wait, 1, 1000) >= 0 ? 0 : -1;
        if (n == 0 && wait.revents)
            n = read(p->out, p->text + p->size, sizeof p->text - (size_t)p->size);
        if (n < 0 || (n == 0 && wait.revents))
            return false;
        p->size += (int)n;
    }
}

static const char *manta_run(const struct gangs *g)
{
    static char path[RIG_PATH + 32];
    snprintf(path, sizeof path, "%s/manta-run", g->folder.bin);
    return path;
}

/* ---- gang_1000 ---- */

/* What a shell would do: four programs, and a fifth that waits for them. */
static double bare(int count)
{
    const char *words[] = {"sh", "-c", "true & /bin/true & /bin/true & /bin/true & /bin/true & wait", NULL};
    return many(words, count, 1);
}

bool bench_gang_1000(struct bench *b)
{
    struct gangs g = {0};
    bool         ok = begin(&g, "2");
    const char  *words[] = {manta_run(&g), "-n", "4", "--cpus", "0", "--", "true", NULL};
    double       one = ok ? many(words, GANGS, 1) : -1, together = one > 0 ? many(words, GANGS, AT_ONCE) : -1;
    if (together > 0) {
        bench_print_value(b, "gang_1000", "/s", GANGS / one * 1e3, GANGS);
        bench_print_value(b, "gang_1000.b", "/s", GANGS / together * 1e3, GANGS);
        bench_print_value(b, "gang_1000.floor", "/s", 100 / bare(100) * 1e3, 100);
    } else {
        fprintf(stderr, "gang_1000: a gang has failed: see %s\n", g.folder.dir);
    }
    return end(&g, together > 0);
}

/* ---- gang_mpi ---- */

static int ask(FILE *pmi, const char *line, char *answer, size_t size)
{
    return fputs(line, pmi) >= 0 && fflush(pmi) == 0 && fgets(answer, (int)size, pmi) ? 0 : 1;
}

int bench_gang_barriers(int count)
{
    char        answer[512];
    const char *fd = getenv("PMI_FD"), *rank = getenv("PMI_RANK");
    FILE       *pmi = fd && rank ? fdopen((int)strtol(fd, NULL, 10), "r+") : NULL;
    if (!pmi)
        return 1;
    setvbuf(pmi, NULL, _IOLBF, 4096);
    int failed = ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", answer, sizeof answer);
    failed |= ask(pmi, "cmd=barrier_in\n", answer, sizeof answer); /* all are there */
    double begun = rig_now_ms();
    for (int i = 0; i < count && !failed; i++)
        failed |= ask(pmi, "cmd=barrier_in\n", answer, sizeof answer);
    if (strcmp(rank, "0") == 0)
        printf("%.3f\n", (rig_now_ms() - begun) * 1e3 / count);
    return failed | ask(pmi, "cmd=finalize\n", answer, sizeof answer);
}

/* The number in the only line that a program prints; < 0: none came. */
static double number_of(const char *const *words)
{
    struct program p = {.size = 0};
    char           line[256];
    p.pid = start(words, &p.out);
    bool        has = p.pid > 0 && line_of(&p, line, sizeof line);
    const char *behind = has ? strrchr(line, ' ') : NULL; /* "[0] " of ours */
    close(p.out);
    return succeeds(p.pid) && has ? strtod(behind ? behind : line, NULL) : -1;
}

static bool hello_make(const struct gangs *g, char *path, size_t size)
{
    static const char text[] = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n";
    char              source[RIG_PATH];
    snprintf(source, sizeof source, "%.63s/hello.c", g->folder.dir);
    snprintf(path, size, "%.63s/hello", g->folder.dir);
    FILE *f = fopen(source, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        return false;
    const char *words[] = {"mpicc.mpich", "-o", path, source, NULL};
    return succeeds(start(words, NULL));
}

bool bench_gang_mpi(struct bench *b)
{
    struct gangs g = {0};
    char         hello[RIG_PATH], self[RIG_PATH];
    bool         ok = begin(&g, "2");
    ssize_t      n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    if (ok && !hello_make(&g, hello, sizeof hello)) {
        fprintf(stderr, "gang_mpi: MPICH is not installed, nothing to measure\n");
        return end(&g, true);
    }
    const char *ours[] = {manta_run(&g), "-n", "4", "--cpus", "0", "--as", "pmi1", "--", hello, NULL};
    const char *hydra[] = {"mpiexec.hydra", "-n", "4", hello, NULL};
    const char *ours_64[] = {manta_run(&g), "-n", "64", "--cpus", "0", "--as", "pmi1", "--", self, "--pmi-barriers", NULL};
    const char *hydra_64[] = {"mpiexec.hydra", "-n", "64", self, "--pmi-barriers", NULL};
    struct pair whole = {-1, -1}, bare = {-1, -1}, barrier = {-1, -1};
    if (ok) {
        whole = in_turn(ours, hydra);
        ours[8] = hydra[3] = "true"; /* what the launcher costs by itself */
        bare = in_turn(ours, hydra);
        barrier = (struct pair){number_of(ours_64), number_of(hydra_64)};
    }
    ok = whole.ours > 0 && bare.ours > 0 && barrier.ours > 0 && barrier.theirs > 0;
    if (ok) {
        bench_print_value(b, "gang_mpi", "ms", whole.ours, MPI_RUNS);
        bench_print_value(b, "gang_mpi.floor", "ms", whole.theirs, MPI_RUNS);
        bench_print_value(b, "gang_mpi.b", "us", barrier.ours, BARRIERS);
        bench_print_value(b, "gang_mpi.b.floor", "us", barrier.theirs, BARRIERS);
        bench_print_value(b, "gang_mpi.c", "ms", bare.ours, MPI_RUNS);
        bench_print_value(b, "gang_mpi.c.floor", "ms", bare.theirs, MPI_RUNS);
    } else {
        fprintf(stderr, "gang_mpi: a run has failed (%g, %g, %g, %g): see %s\n", whole.ours, bare.ours, barrier.ours,
                barrier.theirs, g.folder.dir);
    }
    return end(&g, ok);
}

/* ---- gang_recover, gang_chaos ---- */

/* Two ranks say "up PID" in each attempt; waits for both, and gives the pid of the second. */
static int both_up(struct program *p)
{
    char line[256];
    int  pids[2] = {0, 0};
    while (!pids[0] || !pids[1]) {
        int rank, pid;
        if (!line_of(p, line, sizeof line))
            return -1;
        if (sscanf(line, "[%d] up %d", &rank, &pid) == 2 && rank >= 0 && rank < 2)
            pids[rank] = pid;
    }
    return pids[1];
}

static bool gang_start(struct gangs *g, struct program *p, const char *nodes, const char *mark)
{
    char        script[256];
    const char *words[] = {manta_run(g),
                           "-n",
                           "2",
                           nodes ? "--nodes" : "--cpus",
                           nodes ? nodes : "0",
                           "--max-restarts",
                           "-1",
                           "--kill-after",
                           "1",
                           "--",
                           "sh",
                           "-c",
                           script,
                           mark,
                           NULL};
    snprintf(script, sizeof script, "echo up $$; while [ ! -e %.63s/stop ]; do sleep 0.05; done", g->folder.dir);
    *p = (struct program){.size = 0};
    p->pid = start(words, &p->out);
    return p->pid > 0;
}

static bool gang_stop(const struct gangs *g, struct program *p)
{
    char path[RIG_PATH];
    snprintf(path, sizeof path, "%.63s/stop", g->folder.dir);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    bool ok = succeeds(p->pid);
    close(p->out);
    return ok;
}

bool bench_gang_recover(struct bench *b)
{
    struct gangs   g = {0};
    struct program p = {.size = 0};
    double         took[KILLS];
    bool           ok = begin(&g, "2") && gang_start(&g, &p, NULL, "recover");
    int            victim = ok ? both_up(&p) : -1;
    for (int i = 0; i < KILLS && victim > 0; i++) {
        double begun = rig_now_ms();
        kill(victim, SIGKILL);
        victim = both_up(&p);
        took[i] = rig_now_ms() - begun;
    }
    ok = ok && victim > 0 && gang_stop(&g, &p);
    double      middle = median(took, KILLS);
    const char *sh[] = {"sh", "-c", "echo up $$", NULL};
    if (ok) {
        bench_print_value(b, "gang_recover", "ms", middle, KILLS);
        bench_print_value(b, "gang_recover.max", "ms", took[KILLS - 1], KILLS);
        bench_print_value(b, "gang_recover.floor", "ms", many(sh, 100, 1) / 100, 100);
    }
    return end(&g, ok);
}

/* Processes that have that word among their arguments: ranks, shepherds, and the job's workers. */
static int running(const char *mark)
{
    DIR *proc = opendir("/proc");
    int  count = 0;
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], text[2048] = "";
        snprintf(path, sizeof path, "/proc/%.20s/cmdline", entry->d_name);
        FILE  *f = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        count += n && memmem(text, n, mark, strlen(mark)) != NULL;
        if (f)
            fclose(f);
    }
    if (proc)
        closedir(proc);
    return count;
}

static bool node_start(struct gangs *g, int i, int life)
{
    char name[32];
    snprintf(name, sizeof name, "n%d-%d", i, life);
    g->nodes[i] = rig_raylet(&g->folder, &(struct rig_raylet){.name = name}, -1);
    return g->nodes[i] > 0;
}

/* Those that are still there 5 s after its end: a job's workers end just behind their driver. */
static int left_over(const char *mark)
{
    int count = running(mark);
    for (double until = rig_now_ms() + 5000; count > 0 && rig_now_ms() < until; count = running(mark))
        bench_sleep_us(10000);
    return count;
}

/* One blow: always a rank; with every fourth a node is lost and another comes, with every tenth the head. */
static bool blow(struct gangs *g, int number, int victim)
{
    bool ok = true;
    if (number % 10 == 5) {
        rig_end(&g->head, SIGKILL);
        g->head = rig_head(&g->folder);
        ok = g->head > 0;
    }
    if (number % 4 == 3) {
        rig_end(&g->nodes[number / 4 % NODES], SIGKILL);
        ok = node_start(g, number / 4 % NODES, number) && ok;
    }
    kill(victim, SIGKILL);
    return ok;
}

bool bench_gang_chaos(struct bench *b)
{
    struct gangs   g = {0};
    struct program p = {.size = 0};
    char           mark[64];
    double         longest = 0;
    int            hung = 0;
    bool           ok = begin(&g, "0");
    snprintf(mark, sizeof mark, "gang-chaos-%d", (int)getpid());
    for (int i = 0; i < NODES; i++)
        ok = ok && node_start(&g, i, 0);
    ok = ok && gang_start(&g, &p, "2", mark);
    int victim = ok ? both_up(&p) : -1;
    for (int i = 0; i < CHAOS && victim > 0 && ok; i++) {
        double begun = rig_now_ms();
        ok = blow(&g, i, victim);
        victim = both_up(&p);
        hung += victim < 0;
        longest = rig_now_ms() - begun > longest ? rig_now_ms() - begun : longest;
    }
    ok = ok && (hung > 0 || gang_stop(&g, &p));
    if (ok) {
        bench_print_value(b, "gang_chaos", "", hung, CHAOS);
        bench_print_value(b, "gang_chaos.left", "", left_over(mark), CHAOS);
        bench_print_value(b, "gang_chaos.b", "s", longest / 1e3, CHAOS);
    }
    return end(&g, ok && !hung);
}
