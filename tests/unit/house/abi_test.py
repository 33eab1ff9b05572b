#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi_test.py - scripts/abi.py refuses what would break a built program: each kind of breach is planted in a toy library."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import abi  # noqa: E402  what is tested

HEADER = """#include <stdint.h>
enum {{ TOY_ONE = 1, TOY_TWO = {two} }};
typedef struct toy_opts {{
    {fields}
}} toy_opts;
typedef struct toy_thing toy_thing;
toy_thing *toy_new(const toy_opts *opts);
{result} toy_count(const toy_thing *thing);
int toy_more(void);
"""
FIELDS = "double a; const char *b; struct { int c; uint64_t reserved[2]; } part; uint64_t reserved[8];"
SOURCE = """#include "toy.h"
struct toy_thing {{ int count[{private}]; }};
toy_thing *toy_new(const toy_opts *opts) {{ static toy_thing t; t.count[0] = (int)opts->reserved[0]; return &t; }}
{result} toy_count(const toy_thing *thing) {{ return ({result})thing->count[0]; }}
int toy_more(void) {{ return 0; }}
"""
MAP = "TOY_1 {{ global: toy_new; toy_count; {first} local: *; }};\nTOY_2 {{ global: {second} toy_none; }} TOY_1;\n"


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.release = cls.dump("release")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def dump(cls, name, fields=FIELDS, result="int", two=2, private=1, first="", second="", removed=""):
        at = cls.work / name
        at.mkdir()
        (at / "toy.h").write_text(HEADER.format(fields=fields, result=result, two=two))
        (at / "toy.c").write_text(SOURCE.format(result=result, private=private))
        (at / "toy.map").write_text(MAP.format(first=first, second=second).replace(removed or "\0", "", 1))
        subprocess.run(["gcc", "-g", "-O2", "-fPIC", "-shared", f"-Wl,--version-script={at}/toy.map", at / "toy.c", "-o",
                        at / "libtoy.so"], check=True)
        abi.dump(at / "libtoy.so", at, at / "libtoy.abi")
        return at / "libtoy.abi"

    def breaches(self, **planted):
        return "\n".join(abi.compare(self.release, self.dump(self.id().rsplit(".", 1)[-1], **planted)))

    def test_nothing_changed(self):
        self.assertEqual(self.breaches(private=7), "", "what is private may change")

    def test_a_field_takes_a_reserved_word(self):
        fields = FIELDS.replace("uint64_t reserved[8]", "int d; int reserved_d; const char *e; uint64_t reserved[6]")
        self.assertEqual(self.breaches(fields=fields), "")

    def test_a_field_of_a_section_takes_one(self):
        self.assertEqual(self.breaches(fields=FIELDS.replace("reserved[2];", "d; uint64_t reserved[1];")), "")

    def test_a_new_symbol_in_a_new_node(self):
        self.assertEqual(self.breaches(second="toy_more;"), "")

    def test_a_field_is_removed(self):
        self.assertIn("a is gone", self.breaches(fields=FIELDS.replace("double a; ", "")))

    def test_a_field_is_removed_and_its_place_reserved(self):
        self.assertIn("b is gone", self.breaches(fields=FIELDS.replace("const char *b;", "uint64_t reserved_b;")))

    def test_a_field_stands_before_others(self):
        self.assertIn("b was const char * at bit 64", self.breaches(fields="double a; int d; " + FIELDS.split(" ", 2)[2]
                                                                     .replace("reserved[8]", "reserved[7]")))

    def test_a_field_has_another_type(self):
        said = self.breaches(fields=FIELDS.replace("const char *b;", "int64_t b;").replace("reserved[8]", "d; uint64_t reserved[7]"))
        self.assertIn("b was const char * at bit 64, and is int64_t", said)

    def test_a_struct_grows_at_its_end(self):
        self.assertIn("its size was", self.breaches(fields=FIELDS + " int d;"))

    def test_a_section_grows(self):
        self.assertIn("toy_opts.part: its size was", self.breaches(fields=FIELDS.replace("reserved[2];", "reserved[2]; int d;")))

    def test_a_symbol_is_removed(self):
        self.assertIn("toy_count is exported no more", self.breaches(removed="toy_count;"))

    def test_a_function_has_another_type(self):
        self.assertIn("toy_count", self.breaches(result="double"))

    def test_a_constant_has_another_value(self):
        self.assertIn("TOY_TWO was 2, and is 3", self.breaches(two=3))

    def test_a_limit_grows(self):
        with unittest.mock.patch.object(abi, "LIMITS", {"TOY_TWO"}):
            self.assertEqual(self.breaches(two=3), "")

    def test_a_limit_shrinks(self):
        with unittest.mock.patch.object(abi, "LIMITS", {"TOY_TWO"}):
            self.assertIn("TOY_TWO was 2, and is 1", self.breaches(two=1))

    def test_a_symbol_is_added_to_an_old_node(self):
        self.assertIn("toy_more is new, and in the version node TOY_1", self.breaches(first="toy_more;"))

    def test_a_symbol_moves_to_another_node(self):
        said = self.breaches(removed="toy_count;", second="toy_count;")
        self.assertIn("toy_count was in the version node TOY_1, and is in TOY_2", said)


class Names(unittest.TestCase):
    def breaches(self, text, header="manta_sgd.h"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, header)
            path.write_text(f"#ifndef MANTA_X_H\n#define MANTA_X_H\n{text}#endif\n")
            return "\n".join(abi.header_breaches([path]))

    def test_all_of_one_family(self):
        text = "#define MANTA_SGD_A(x) x\nenum { MANTA_SGD_B, MANTA_SGD_C = 3 };\nvoid manta_sgd_d(int (*fn)(void));\n"
        self.assertEqual(self.breaches(text), "")

    def test_a_macro_of_no_family(self):
        self.assertIn("MANTA_INT is of no family", self.breaches("#define MANTA_INT(x) x\n"))

    def test_a_constant_of_no_family(self):
        self.assertIn("MANTA_RECORDS is of no family", self.breaches("enum { MANTA_SGD_B, MANTA_RECORDS };\n"))

    def test_a_type_of_no_family(self):
        self.assertIn("manta_batch is of no family", self.breaches("typedef struct manta_batch manta_batch;\n"))

    def test_a_name_that_is_not_ours(self):
        self.assertIn("PLAIN does not begin", self.breaches("#define PLAIN 1\n"))

    def test_a_function_s_name_is_no_macro_s(self):
        self.assertEqual(self.breaches("void manta_map(void);\n", "manta.h"), "")
        self.assertIn("MANTA_MAP is of no family", self.breaches("#define MANTA_MAP 1\n", "manta.h"))

    def test_a_struct_that_cannot_grow(self):
        struct = "typedef struct manta_sgd_x {{\n    int a;\n{}}} manta_sgd_x;\n"
        self.assertIn("manta_sgd_x cannot grow", self.breaches(struct.format("")))
        self.assertEqual(self.breaches(struct.format("    uint64_t reserved[4]; /* 0 */\n")), "")
        self.assertEqual(self.breaches(struct.format("    uint64_t reserved[4];\n    uint64_t library[4];\n")), "")


if __name__ == "__main__":
    if not shutil.which("abidw"):
        print("abidw is not installed (Debian: abigail-tools)")
        sys.exit(77)
    unittest.main()
