/* SPDX-License-Identifier: Apache-2.0
 *
 * env_test.c - runtime environments: variables, folder and files of tasks and actors, who shares workers, what is refused.
 *
 * Thread: the driver's main one. Files are made in a folder of the case's own, which it removes.
 */
#include "tests/integration/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what runs there ---- */
static manta_status variable(manta_ctx *c, int argc, const manta_arg *argv)
{
    const char *value = getenv(argv[0].y.data);
    (void)argc;
    return manta_return_str(c, value ? value : "(none)");
}
MANTA_REGISTER(variable, "s>s");

static manta_status content(manta_ctx *c, int argc, const manta_arg *argv)
{
    char    text[256];
    int     fd = open(argv[0].y.data, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    (void)argc;
    if (n < 0)
        return manta_fail(c, errno, "%s", strerror(errno));
    close(fd);
    text[n] = 0;
    return manta_return_str(c, text);
}
MANTA_REGISTER(content, "s>s");

static manta_status folder(manta_ctx *c, int argc, const manta_arg *argv)
{
    char here[4096];
    (void)argc;
    (void)argv;
    return getcwd(here, sizeof here) ? manta_return_str(c, here) : manta_fail(c, errno, "getcwd");
}
MANTA_REGISTER(folder, ">s");

static manta_status pid(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(pid, ">l");

/* A program may take long until it calls manta_init: it loads many libraries, or reads a file. */
__attribute__((constructor)) static void load_slowly(void)
{
    if (getenv("LOADS_MS"))
        test_sleep_ms((int)strtol(getenv("LOADS_MS"), NULL, 10));
}

/* "inner outer of-inner": asks tasks of its own, without and with an environment. */
static manta_status nest(manta_ctx *c, int argc, const manta_arg *argv)
{
    const char       *vars[] = {"INNER=i", NULL};
    manta_runtime_env deeper = {.env_vars = vars};
    manta_error       e;
    manta_view        v[4] = {{0}};
    char              text[512];
    manta_env        *env = manta_env_new(&deeper, &e);
    (void)argc;
    (void)argv;
    if (!env)
        return manta_fail(c, e.code, "%s", e.message);
    manta_task_opts opts = {.env = env};
    manta_ref      *refs[4] = {manta_call("variable", NULL, MANTA_ARGS(manta_str("OUTER"))),
                               manta_call("variable", &opts, MANTA_ARGS(manta_str("OUTER"))),
                               manta_call("variable", &opts, MANTA_ARGS(manta_str("INNER"))),
                               manta_call("content", &opts, MANTA_ARGS(manta_str("a.txt")))};
    manta_env_free(env);
    for (int i = 0; i < 4; i++)
        if (manta_get(refs[i], TEST_WAIT_MS, &v[i], &e))
            return manta_fail(c, e.code, "%s", e.message);
    snprintf(text, sizeof text, "%s %s %s %s", (const char *)v[0].data, (const char *)v[1].data, (const char *)v[2].data,
             (const char *)v[3].data);
    for (int i = 0; i < 4; i++) {
        manta_release(&v[i]);
        manta_free(refs[i]);
    }
    return manta_return_str(c, text);
}
MANTA_REGISTER(nest, ">s");

static manta_status teller_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c;
    (void)argc;
    (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status teller_variable(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return variable(c, argc, argv);
}
MANTA_ACTOR(teller, "", teller_new, NULL, {"variable", "s>s", teller_variable});

/* ---- helpers ---- */
static char base[200];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}
static void files_remove(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
static const char *in_base(const char *name)
{
    static char path[4][256];
    static int  next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s%s%s", base, name[0] ? "/" : "", name);
    return path[next];
}
static void file_write(const char *name, const char *text, mode_t mode)
{
    int fd = open(in_base(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}
/* wd: a.txt, sub/b.txt, sub/link -> ../a.txt, run (may be run), empty/. Once: workers may come here too, up to manta_init. */
static void files_make(void)
{
    CHECK(snprintf(base, sizeof base, "%s/files", getenv("XDG_RUNTIME_DIR")) < (int)sizeof base);
    if (mkdir(base, 0700) && errno == EEXIST)
        return;
    CHECK_EQ(mkdir(in_base("wd"), 0755), 0);
    CHECK_EQ(mkdir(in_base("wd/sub"), 0755), 0);
    CHECK_EQ(mkdir(in_base("wd/empty"), 0755), 0);
    file_write("wd/a.txt", "alpha", 0644);
    file_write("wd/sub/b.txt", "beta", 0644);
    file_write("wd/run", "#!/bin/sh\necho hello\n", 0755);
    CHECK_EQ(symlink("../a.txt", in_base("wd/sub/link")), 0);
}

#define CHECK_TEXT(ref, wanted) check_text((ref), (wanted), __LINE__)
static void check_text(manta_ref *ref, const char *wanted, int line)
{
    manta_error e;
    manta_view  v;
    if (manta_get(ref, TEST_WAIT_MS, &v, &e))
        test_fail(__FILE__, line, "%s", e.message);
    if (strcmp(v.data, wanted))
        test_fail(__FILE__, line, "\"%s\" instead of \"%s\"", (const char *)v.data, wanted);
    manta_release(&v);
    manta_free(ref);
}
static manta_ref *ask(const manta_env *env, const char *function, const char *what)
{
    manta_task_opts opts = {.env = env};
    return manta_call(function, &opts, MANTA_ARGS(manta_str(what)));
}
static int64_t pid_in(const manta_env *env)
{
    manta_task_opts opts = {.env = env};
    return test_i64(manta_call("pid", &opts, MANTA_NO_ARGS), __FILE__, __LINE__);
}
static manta_env *env_of(const manta_runtime_env *what)
{
    manta_error e;
    manta_env  *env = manta_env_new(what, &e);
    if (!env)
        test_fail(__FILE__, __LINE__, "%s", e.message);
    return env;
}
static manta_env *env_with(const char *variable_1, const char *variable_2)
{
    const char *vars[] = {variable_1, variable_2, NULL};
    return env_of(&(manta_runtime_env){.env_vars = vars});
}
static void refused(const manta_runtime_env *what, manta_status code, const char *word, const char *word_2)
{
    manta_error e;
    CHECK(!manta_env_new(what, &e));
    CHECK_EQ(e.code, code);
    CHECK_SAYS(e.message, word);
    CHECK_SAYS(e.message, word_2);
}

/* ---- cases ---- */
static void variables(void)
{
    setenv("FROM_DRIVER", "changed too late", 1);
    manta_env *env = env_with("COLOUR=red", "EMPTY="), *twice = env_with("COLOUR=green", "COLOUR=blue");
    CHECK_TEXT(ask(env, "variable", "COLOUR"), "red");
    CHECK_TEXT(ask(env, "variable", "EMPTY"), "");
    CHECK_TEXT(ask(twice, "variable", "COLOUR"), "blue");
    CHECK_TEXT(ask(NULL, "variable", "COLOUR"), "(none)");
    CHECK_TEXT(ask(env, "variable", "XDG_RUNTIME_DIR"), getenv("XDG_RUNTIME_DIR"));
    manta_env *path = env_with("XDG_RUNTIME_DIR=/elsewhere", NULL); /* instead of the driver's, not beside it */
    CHECK_TEXT(ask(path, "variable", "XDG_RUNTIME_DIR"), "/elsewhere");
    manta_env_free(env);
    manta_env_free(twice);
    manta_env_free(path);
    manta_env_free(NULL);
}

static void loads_long(void)
{
    manta_env *env = env_with("LOADS_MS=6000", "COLOUR=red");
    CHECK_TEXT(ask(env, "variable", "COLOUR"), "red");
    manta_env_free(env);
}

static void not_shared(void)
{
    manta_env *a = env_with("WHO=a", NULL), *b = env_with("WHO=b", NULL);
    for (int i = 0; i < 20; i++) {
        int64_t pids[3] = {pid_in(a), pid_in(b), pid_in(NULL)};
        CHECK(pids[0] != pids[1] && pids[1] != pids[2] && pids[0] != pids[2]);
    }
    for (int i = 0; i < 200; i++) { /* mixed, many at a time */
        manta_ref *ra = ask(a, "variable", "WHO"), *rb = ask(b, "variable", "WHO"), *rn = ask(NULL, "variable", "WHO");
        CHECK_TEXT(ra, "a");
        CHECK_TEXT(rb, "b");
        CHECK_TEXT(rn, "(none)");
    }
    manta_env_free(a);
    manta_env_free(b);
}

static void same_shared(void)
{
    manta_env *a = env_with("WHO=a", NULL);
    int64_t    first = pid_in(a);
    manta_env_free(a);
    for (int i = 0; i < 5; i++) {
        a = env_with("WHO=a", NULL);
        CHECK_EQ(pid_in(a), first); /* still warm, and the same environment */
        manta_env_free(a);
    }
}

static void excludes(void)
{
    static const char *const patterns[] = {"*.txt", "empty", NULL};
    static const char *const deeper[] = {"sub/*", NULL};
    manta_runtime_env        described = {.excludes = patterns};
    manta_error              e;
    files_make();
    described.working_dir = in_base("wd");
    manta_env *env = env_of(&described);
    described.excludes = deeper;
    manta_env *other = env_of(&described);
    files_remove();
    CHECK_FAILS(ask(env, "content", "a.txt"), MANTA_ETASK, &e);
    CHECK_FAILS(ask(env, "content", "sub/b.txt"), MANTA_ETASK, &e);
    CHECK_TEXT(ask(env, "content", "run"), "#!/bin/sh\necho hello\n");
    CHECK_TEXT(ask(other, "content", "a.txt"), "alpha");
    CHECK_FAILS(ask(other, "content", "sub/b.txt"), MANTA_ETASK, &e);
    manta_env_free(env);
    manta_env_free(other);
}

static void working_dir(void)
{
    CHECK_EQ(close(STDIN_FILENO), 0); /* a program may have none: then the archive is number 0 */
    files_make();
    manta_env *env = env_of(&(manta_runtime_env){.working_dir = in_base("wd")});
    files_remove(); /* what was read is kept */
    CHECK_TEXT(ask(env, "content", "a.txt"), "alpha");
    CHECK_TEXT(ask(env, "content", "sub/b.txt"), "beta");
    CHECK_TEXT(ask(env, "content", "sub/link"), "alpha");
    manta_error e;
    CHECK_FAILS(ask(env, "content", "none.txt"), MANTA_ETASK, &e);
    manta_view      v;
    struct stat     st;
    manta_task_opts opts = {.env = env};
    manta_ref      *where = manta_call("folder", &opts, MANTA_NO_ARGS);
    CHECK_CODE(manta_get(where, TEST_WAIT_MS, &v, &e), MANTA_OK, &e);
    char path[4200];
    snprintf(path, sizeof path, "%s/run", (const char *)v.data);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/empty", (const char *)v.data);
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    manta_release(&v);
    manta_free(where);
    manta_env_free(env);
    CHECK_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

static void files(void)
{
    files_make();
    file_write("one.txt", "first", 0644);
    const char *list[] = {in_base("one.txt"), in_base("wd/sub/b.txt"), NULL};
    manta_env  *alone = env_of(&(manta_runtime_env){.files = list});
    manta_env *beside = env_of(&(manta_runtime_env){.working_dir = in_base("wd/empty/"), .files = (const char *[]){list[0], NULL}});
    CHECK_TEXT(ask(alone, "content", "one.txt"), "first");
    CHECK_TEXT(ask(alone, "content", "b.txt"), "beta");
    CHECK_TEXT(ask(beside, "content", "one.txt"), "first");
    manta_env_free(alone);
    manta_env_free(beside);
    files_remove();
}

static void nested(void)
{
    files_make();
    const char     *vars[] = {"OUTER=o", NULL};
    manta_env      *env = env_of(&(manta_runtime_env){.env_vars = vars, .working_dir = in_base("wd")});
    manta_task_opts opts = {.env = env};
    CHECK_TEXT(manta_call("nest", &opts, MANTA_NO_ARGS), "o o i alpha");
    manta_env_free(env);
    files_remove();
}

static void job_env(void)
{
    files_make();
    const char       *vars[] = {"OUTER=job", NULL};
    manta_runtime_env env = {.env_vars = vars, .working_dir = in_base("wd")};
    manta_error       e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2, .runtime_env = &env}, &e), MANTA_OK, &e);
    CHECK_TEXT(ask(NULL, "variable", "OUTER"), "job");
    CHECK_TEXT(ask(NULL, "content", "a.txt"), "alpha");
    manta_env *more = env_with("INNER=more", NULL); /* builds on the job's */
    CHECK_TEXT(ask(more, "variable", "OUTER"), "job");
    CHECK_TEXT(ask(more, "variable", "INNER"), "more");
    CHECK_TEXT(ask(more, "content", "sub/b.txt"), "beta");
    CHECK_TEXT(manta_call("nest", NULL, MANTA_NO_ARGS), "job job i alpha");
    manta_env_free(more);
    files_remove();
}

static void actor_env(void)
{
    manta_env   *env = env_with("COLOUR=red", NULL);
    manta_actor *in = manta_actor_new("teller", &(manta_actor_opts){.env = env, .max_restarts = 1}, MANTA_NO_ARGS);
    manta_actor *out = manta_actor_new("teller", NULL, MANTA_NO_ARGS);
    CHECK_TEXT(manta_actor_call(in, "variable", MANTA_ARGS(manta_str("COLOUR"))), "red");
    CHECK_TEXT(manta_actor_call(out, "variable", MANTA_ARGS(manta_str("COLOUR"))), "(none)");
    manta_actor_kill(in, true);
    for (int64_t end = test_now_ms() + TEST_WAIT_MS;;) { /* again in its environment after a restart */
        manta_error e;
        manta_view  v;
        manta_ref  *ref = manta_actor_call(in, "variable", MANTA_ARGS(manta_str("COLOUR")));
        int         code = manta_get(ref, TEST_WAIT_MS, &v, &e);
        manta_free(ref);
        if (code == MANTA_OK) {
            CHECK_STR((const char *)v.data, "red");
            manta_release(&v);
            break;
        }
        CHECK(code == MANTA_EACTOR_DIED && test_now_ms() < end);
    }
    manta_actor_free(in);
    manta_actor_free(out);
    manta_env_free(env);
}

/* ---- bad input ---- */
static void bad_variables(void)
{
    static char huge[40 * 1024];
    const char *none[] = {"NOTHING", NULL}, *nameless[] = {"=x", NULL}, *ours[] = {"MANTA_FD=7", NULL}, *big[] = {huge, NULL};
    memset(huge, 'x', sizeof huge - 1);
    huge[1] = '=';
    refused(&(manta_runtime_env){.env_vars = none}, MANTA_EINVAL, "env_vars", "NOTHING");
    refused(&(manta_runtime_env){.env_vars = nameless}, MANTA_EINVAL, "env_vars", "=x");
    refused(&(manta_runtime_env){.env_vars = ours}, MANTA_EINVAL, "env_vars", "MANTA_FD");
    refused(&(manta_runtime_env){.env_vars = big}, MANTA_EENV, "set env_vars", "bytes");
    manta_error e;
    CHECK(!manta_env_new(NULL, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK_TEXT(ask(NULL, "variable", "NOTHING"), "(none)");
}

static void bad_folders(void)
{
    files_make();
    refused(&(manta_runtime_env){.working_dir = in_base("none")}, MANTA_EENV, "could not make working_dir", "No such file");
    refused(&(manta_runtime_env){.working_dir = in_base("wd/a.txt")}, MANTA_EENV, "could not make working_dir", "a.txt");
    CHECK_EQ(symlink("/etc/passwd", in_base("wd/sub/absolute")), 0);
    refused(&(manta_runtime_env){.working_dir = in_base("wd")}, MANTA_EENV, "sub/absolute", "absolute path");
    CHECK_EQ(unlink(in_base("wd/sub/absolute")), 0);
    CHECK_EQ(symlink("../../../etc", in_base("wd/sub/climbs")), 0);
    refused(&(manta_runtime_env){.working_dir = in_base("wd")}, MANTA_EENV, "sub/climbs", "out of its folder");
    CHECK_EQ(unlink(in_base("wd/sub/climbs")), 0);
    CHECK_EQ(symlink("sub/../../etc", in_base("wd/sly")), 0);
    refused(&(manta_runtime_env){.working_dir = in_base("wd")}, MANTA_EENV, "sly", "link");
    files_remove();
}

static void bad_files(void)
{
    files_make();
    refused(&(manta_runtime_env){.files = (const char *[]){in_base("none"), NULL}}, MANTA_EENV, "could not copy files", "none");
    refused(&(manta_runtime_env){.files = (const char *[]){in_base("wd"), NULL}}, MANTA_EENV, "could not copy files",
            "no regular file");
    refused(&(manta_runtime_env){.files = (const char *[]){"/dev/zero", NULL}}, MANTA_EENV, "could not copy files", "/dev/zero");
    /* Twice the same name: found when it is unpacked, and told to whoever wants to run there. */
    manta_error e;
    file_write("a.txt", "other", 0644);
    manta_env *env = env_of(&(manta_runtime_env){.working_dir = in_base("wd"), .files = (const char *[]){in_base("a.txt"), NULL}});
    CHECK_FAILS(ask(env, "variable", "X"), MANTA_EENV, &e);
    CHECK_SAYS(e.message, "could not make working_dir on node 1");
    CHECK_SAYS(e.message, "a.txt");
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    CHECK_FAILS(ask(env, "variable", "X"), MANTA_EENV, &e); /* and again */
    manta_actor *actor = manta_actor_new("teller", &(manta_actor_opts){.env = env}, MANTA_NO_ARGS);
    manta_ref   *ref = manta_actor_call(actor, "variable", MANTA_ARGS(manta_str("X")));
    manta_view   v;
    CHECK(manta_get(ref, TEST_WAIT_MS, &v, &e) != MANTA_OK);
    CHECK_SAYS(e.message, "could not make working_dir");
    manta_free(ref);
    manta_actor_free(actor);
    manta_env_free(env);
    CHECK_TEXT(ask(NULL, "variable", "X"), "(none)");
    files_remove();
}

static void too_large(void)
{
    files_make();
    int fd = open(in_base("wd/huge"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_EQ(ftruncate(fd, (off_t)600 << 20), 0);
    close(fd);
    refused(&(manta_runtime_env){.working_dir = in_base("wd")}, MANTA_EENV, "500 MiB", "huge");
    files_remove();
}

static void too_many(void)
{
    manta_env  *envs[100];
    manta_error e;
    int         made = 0;
    for (; made < 100; made++) {
        char        line[32];
        const char *vars[] = {line, NULL};
        snprintf(line, sizeof line, "NUMBER=%d", made);
        if (!(envs[made] = manta_env_new(&(manta_runtime_env){.env_vars = vars}, &e)))
            break;
    }
    CHECK_EQ(made, 64);
    CHECK_EQ(e.code, MANTA_EENV);
    CHECK_SAYS(e.message, "too many");
    CHECK_TEXT(ask(envs[63], "variable", "NUMBER"), "63");
    CHECK_TEXT(ask(NULL, "variable", "NUMBER"), "(none)");
    for (int i = 0; i < made; i++)
        manta_env_free(envs[i]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"variables", variables, {.num_cpus = 2}, false, 0},
        {"loads_long", loads_long, {.num_cpus = 2}, false, 0},
        {"not_shared", not_shared, {.num_cpus = 4}, false, 0},
        {"same_shared", same_shared, {.num_cpus = 2}, false, 0},
        {"working_dir", working_dir, {.num_cpus = 2}, false, 0},
        {"excludes", excludes, {.num_cpus = 2}, false, 0},
        {"files", files, {.num_cpus = 2}, false, 0},
        {"nested", nested, {.num_cpus = 2}, false, 0},
        {"job_env", job_env, {0}, true, 0},
        {"actor_env", actor_env, {.num_cpus = 2}, false, 0},
        {"bad_variables", bad_variables, {.num_cpus = 2}, false, 0},
        {"bad_folders", bad_folders, {.num_cpus = 2}, false, 0},
        {"bad_files", bad_files, {.num_cpus = 2}, false, 0},
        {"too_large", too_large, {.num_cpus = 2}, false, 0},
        {"too_many", too_many, {.num_cpus = 2}, false, 0},
        {0},
    };
    return test_main(argc, argv, cases);
}
