/* SPDX-License-Identifier: Apache-2.0
 *
 * named.c - `manta token create NAME --rights ...`: a token that names who asks, for people and programs that are to do less than
 * everything.
 *
 * The token is a secret: it goes into a new file of mode 0600, or to standard output, and never into argv.
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/tokens/private.h"

#include "core/base/rights.h"
#include "core/io/private.h"

#include <string.h>

static int write_out(char *text, const char *file)
{
    mt_status st = mt_ok();
    bool      is_written = true;
    if (file)
        st = io_private_write(file, mt_view_of(text, strlen(text)), false);
    else
        is_written = fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    explicit_bzero(text, strlen(text));
    free(text);
    if (st.code)
        return cli_fail("%s: %s", file,
                        st.code == MT_EEXIST ? "there is such a file already: name another one"
                        : st.sys             ? strerror(st.sys)
                                             : st.what);
    return is_written ? CLI_OK : cli_fail("the token can't be written");
}

int cli_named_create(const struct cli_args *args, manta_client *client)
{
    const char      *rights = args->values[CLI_OPT_RIGHTS], *file = args->rest_count > 1 ? args->rest[1] : NULL;
    double           valid_s = 0;
    char            *text = NULL;
    manta_error      e;
    manta_token_opts opts = {.name = args->rest[0], .right = rights ? (int)mt_right_parse(rights) : 0};
    if (!opts.right)
        return cli_usage(args, "--rights %s: read, submit or admin is wanted", rights ? rights : "is missing");
    if (!cli_number(args, CLI_OPT_VALID_S, 1, &valid_s))
        return CLI_USAGE;
    if (args->values[CLI_OPT_USES] || args->values[CLI_OPT_NAME])
        return cli_usage(args, "--uses and --name are of tickets; a token is made by NAME and --rights");
    opts.valid_ms = (uint64_t)(valid_s * 1000);
    if (manta_token_create(client, &opts, &text, NULL, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    int status = write_out(text, file);
    if (status != CLI_OK) {
        (void)manta_token_revoke(client, opts.name, NULL); /* nobody has it */
        return status;
    }
    fprintf(stderr, "token \"%s\": good for %s%s. There: --token-file FILE, or MANTA_TOKEN_FILE (mode 0600)\n", opts.name, rights,
            valid_s > 0 ? ", until its end" : "");
    return CLI_OK;
}

static json_t *token_json(const manta_token *t)
{
    const char *state = t->is_revoked ? "REVOKED" : t->is_ended ? "ENDED" : "GOOD";
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "kind", "token", "id", t->name, "name", t->name, "state", state,
                     "rights", mt_right_text((enum mt_right)t->right), "ends", cli_time_json(t->ends_ms), "made",
                     cli_time_json(t->made_ms), "last", "");
}

bool cli_named_rows(manta_client *client, json_t *rows, manta_error *e)
{
    manta_token *tokens;
    size_t       count;
    if (manta_tokens_list(client, &tokens, &count, e) != MANTA_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, token_json(&tokens[i]));
    free(tokens);
    return true;
}
