/* SPDX-License-Identifier: Apache-2.0
 *
 * token_test.c - the token file: who may read it, what is refused, and that two are never equal.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/token.h"

#include <fcntl.h>
#include <sys/stat.h>

static char dir[80], path[128], token_link[128];

static int setup(void **state)
{
    (void)state;
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/cluster/token", dir);
    snprintf(token_link, sizeof token_link, "%s/cluster/link", dir);
    return 0;
}

static int teardown(void **state)
{
    char sub[128];
    (void)state;
    snprintf(sub, sizeof sub, "%s/cluster", dir);
    unlink(path);
    unlink(token_link);
    rmdir(sub);
    return rmdir(dir);
}

static void write_file(const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void made_once_and_read_back(void **state)
{
    struct io_token made, read_back;
    struct stat     st;
    (void)state;
    assert_code(io_token_read(path, &read_back), MT_ENOENT);
    assert_ok(io_token_make(path, &made));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_code(io_token_make(path, &made), MT_EEXIST);
    assert_ok(io_token_read(path, &read_back));
    assert_true(io_token_equal(&made, read_back.hex, IO_TOKEN_HEX));
    unlink(path);
    assert_ok(io_token_make(path, &read_back));
    assert_false(io_token_equal(&made, read_back.hex, IO_TOKEN_HEX));
    io_token_wipe(&made);
    assert_int_equal(made.hex[0], 0);
}

static void files_that_others_can_read_are_refused(void **state)
{
    struct io_token token;
    char            sub[128];
    (void)state;
    assert_ok(io_token_make(path, &token));
    chmod(path, 0640);
    assert_code(io_token_read(path, &token), MT_EAUTH);
    chmod(path, 0604);
    assert_code(io_token_read(path, &token), MT_EAUTH);
    chmod(path, 0600);
    assert_ok(io_token_read(path, &token));
    assert_int_equal(symlink(path, token_link), 0);
    assert_code(io_token_read(token_link, &token), MT_EAUTH);
    snprintf(sub, sizeof sub, "%s/cluster", dir);
    assert_code(io_token_read(sub, &token), MT_EAUTH); /* not a file */
    unlink(path);
    chmod(sub, 0755);
    assert_code(io_token_make(path, &token), MT_EAUTH);
}

static void damaged_files_are_refused(void **state)
{
    struct io_token token;
    char            text[200];
    (void)state;
    assert_ok(io_token_make(path, &token));
    write_file("");
    assert_code(io_token_read(path, &token), MT_ECORRUPT);
    write_file("0123");
    assert_code(io_token_read(path, &token), MT_ECORRUPT);
    memset(text, 'g', 64);
    text[64] = '\0';
    write_file(text);
    assert_code(io_token_read(path, &token), MT_ECORRUPT);
    memset(text, 'a', 150);
    text[150] = '\0';
    write_file(text);
    assert_code(io_token_read(path, &token), MT_ECORRUPT);
    text[64] = '\0';
    write_file(text);
    assert_ok(io_token_read(path, &token));
}

static void every_wrong_digit_is_seen(void **state)
{
    struct io_token token;
    char            text[IO_TOKEN_HEX + 2];
    (void)state;
    memset(text, '0', sizeof text);
    text[IO_TOKEN_HEX] = '\0';
    assert_ok(io_token_parse(text, &token));
    assert_true(io_token_equal(&token, text, IO_TOKEN_HEX));
    assert_false(io_token_equal(&token, text, IO_TOKEN_HEX - 1));
    assert_false(io_token_equal(&token, text, IO_TOKEN_HEX + 1));
    assert_false(io_token_equal(&token, "", 0));
    for (size_t i = 0; i < IO_TOKEN_HEX; i++) {
        text[i] = '1';
        assert_false(io_token_equal(&token, text, IO_TOKEN_HEX));
        text[i] = '0';
    }
    assert_code(io_token_parse("00", &token), MT_EAUTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_once_and_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_others_can_read_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(every_wrong_digit_is_seen, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
