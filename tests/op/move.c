/* move.c -- operators that move elements, at every level and in every layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void check_all(const char *const *texts, int n)
{
    for (int i = 0; i < n; i++) {
        op_case c = op_case_of(texts[i]);
        c.tolerance = 0; /* moved, not computed */
        c.hurt = 5;
        op_check(&c);
        if (c.ran == 0)
            fail_msg("no tactic took\n%s", texts[i]);
    }
}

#define ALL(texts) check_all(texts, CM_COUNT(texts))

static void transposes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,5,7]\ny = Transpose(x)\nreturn y\n",
        "x: f32[2,64,13,9]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,33,17,5]\ny = Transpose(x) {perm=[3,1,0,2]}\nreturn y\n",
        "x: u8[40,100]\ny = Transpose(x) {perm=[1,0]}\nreturn y\n",
        "x: f64[1,12,30,64]\ny = Transpose(x) {perm=[0,2,1,3]}\nreturn y\n",
        "x: i64[4,3,2,5,2]\ny = Transpose(x) {perm=[-1,0,3,2,1]}\nreturn y\n",
        "x: bool[9]\ny = Transpose(x) {perm=[0]}\nreturn y\n",
        "x: f32[]\ny = Transpose(x)\nreturn y\n",
        "x: f32[3,0,2]\ny = Transpose(x)\nreturn y\n",
    };
    ALL(texts);
}

/* Few planes to pixels and back, and bytes by tiles. */
static void turns(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f16[2,3,24,32]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,24,32,3]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f16[3,3,47,51]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[3,47,51,3]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: u8[2,3,65,67]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: u8[2,64,72,3]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: u8[2,65,67,4]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f32[2,15,9,16]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f64[2,9,17,2]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: u8[2,255,7,19]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,133,7,19]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[3,7,9,67]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: u8[130,257]\ny = Transpose(x) {perm=[1,0]}\nreturn y\n",
        "x: bf16[66,17,131]\ny = Transpose(x) {perm=[2,1,0]}\nreturn y\n",
        "x: i8[3,70,9]\ny = Transpose(x) {perm=[1,2,0]}\nreturn y\n",
        "x: u8[2,160,144]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f16[2,136,144]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f16[3,8,5,80]\ny = Transpose(x) {perm=[0,3,2,1]}\nreturn y\n",
        "x: f16[2,135,147]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: u8[2,133,259]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f16[2,17,16,8]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f32[2,96,144]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f32[2,21,300]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f32[2,300,21]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: f32[2,3,47,51]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f32[2,47,51,3]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f16[2,4,65,67]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,12,9,31]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,35,37,8]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: i64[3,7,19,11]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: i64[3,19,11,15]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f16[2,19,61,23]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: f16[2,61,23,19]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: u8[2,37,61,23]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: u8[3,31,41,33]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
        "x: f32[2,40,24,20]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
        "x: i64[131,69]\ny = Transpose(x) {perm=[1,0]}\nreturn y\n",
        "x: u8[3,33,19]\ny = Transpose(x) {perm=[0,2,1]}\nreturn y\n",
        "x: u8[16,3,272]\ny = Transpose(x) {perm=[2,1,0]}\nreturn y\n",
    };
    ALL(texts);
}

static void slices(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[10,7]\n@a = i64[1] {2}\n@b = i64[1] {9}\ny = Slice(x, @a, @b)\nreturn y\n",
        "x: f32[2,6,8,9]\n@a = i64[2] {-1,1}\n@b = i64[2] {-100,100}\n@k = i64[2] {3,-2}\n"
        "@s = i64[2] {-2,3}\ny = Slice(x, @a, @b, @k, @s)\nreturn y\n",
        "x: f32[2,6,8]\n@a = i32[1] {1}\n@b = i32[1] {4}\n@k = i32[1] {1}\n"
        "y = Slice(x, @a, @b, @k)\nreturn y\n",
        "x: i8[50]\n@a = i64[1] {-1}\n@b = i64[1] {-51}\n@k = i64[1] {0}\n@s = i64[1] {-1}\n"
        "y = Slice(x, @a, @b, @k, @s)\nreturn y\n",
        "x: f32[5]\n@a = i64[1] {4}\n@b = i64[1] {2}\ny = Slice(x, @a, @b)\nreturn y\n",
        "x: f16[6,40,51]\n@a = i64[2] {4,7}\n@b = i64[2] {-99,50}\n@k = i64[2] {0,2}\n"
        "@s = i64[2] {-1,1}\ny = Slice(x, @a, @b, @k, @s)\nreturn y\n",
    };
    ALL(texts);
}

static void joins_and_cuts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a: f32[2,3]\nb: f32[4,3]\ny = Concat(a, b) {axis=0}\nreturn y\n",
        "a: f32[2,3,5,6]\nb: f32[2,16,5,6]\nc: f32[2,1,5,6]\nd: f32[2,0,5,6]\n"
        "y = Concat(a, b, c, d) {axis=1}\nreturn y\n",
        "a: f16[3,4,7]\n@b = f16[3,4,2] random 1\ny = Concat(a, @b, a) {axis=-1}\nreturn y\n",
        "a: f32[1,64,56,57]\nb: f32[1,32,56,57]\ny = Concat(a, b) {axis=1}\nreturn y\n",
        "a: u8[5]\ny = Concat(a, a, a, a, a, a, a, a, a, a, a, a, a, a, a) {axis=0}\nreturn y\n",
        "x: f32[2,9,5,4]\n@s = i64[3] {1,5,3}\na, b, c = Split(x, @s) {axis=1}\nreturn a, b, c\n",
        "a: f16[3,21,11]\nb: f16[3,7,11]\ny = Concat(a, b) {axis=1}\nreturn y\n",
        "a: u8[5,101]\nb: u8[5,67]\nc: u8[5,5]\ny = Concat(a, b, c) {axis=1}\nreturn y\n",
        "x: f16[3,258,11]\n@s = i64[2] {255,3}\na, b = Split(x, @s) {axis=1}\nreturn a, b\n",
        "x: f64[3,25]\n@s = i64[2] {9,16}\na, b = Split(x, @s) {axis=1}\nreturn a, b\n",
        "x: f32[7,3]\na, b, c = Split(x) {axis=0, num_outputs=3}\nreturn a, b, c\n",
        "x: i64[2,3,8]\na, b = Split(x) {axis=-1}\nreturn a, b\n",
        "x: f32[4,8]\na, _, c, _ = Split(x) {axis=1}\nreturn a, c\n",
    };
    ALL(texts);
}

static void repeats(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,1,5]\n@s = i64[4] {2,3,4,5}\ny = Expand(x, @s)\nreturn y\n",
        "x: f32[1]\n@s = i64[2] {30,40}\ny = Expand(x, @s)\nreturn y\n",
        "x: bool[4,1]\n@s = i64[2] {1,70}\ny = Expand(x, @s)\nreturn y\n",
        "x: f16[3,5,1]\n@s = i64[3] {3,5,101}\ny = Expand(x, @s)\nreturn y\n",
        "x: u8[6,1]\n@s = i64[2] {6,333}\ny = Expand(x, @s)\nreturn y\n",
        "x: f32[2,3,4]\n@r = i64[3] {2,1,3}\ny = Tile(x, @r)\nreturn y\n",
        "x: i16[5]\n@r = i64[1] {9}\ny = Tile(x, @r)\nreturn y\n",
        "x: f32[2,3]\n@r = i64[2] {0,2}\ny = Tile(x, @r)\nreturn y\n",
        "x: f64[]\n@s = i64[3] {2,3,4}\ny = Expand(x, @s)\nreturn y\n",
    };
    ALL(texts);
}

static void blocks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,12,3,5]\ny = DepthToSpace(x) {blocksize=2}\nreturn y\n",
        "x: f32[1,18,4,5]\ny = DepthToSpace(x) {blocksize=3, mode=\"CRD\"}\nreturn y\n",
        "x: f32[2,3,6,8]\ny = SpaceToDepth(x) {blocksize=2}\nreturn y\n",
        "x: u8[1,3,32,32]\ny = SpaceToDepth(x) {blocksize=4}\nreturn y\n",
    };
    ALL(texts);
}

static void pads(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,3,5,6]\n@p = i64[8] {0,0,1,2,0,0,3,4}\ny = Pad(x, @p)\nreturn y\n",
        "x: f16[3,5,17,23]\n@p = i64[8] {0,0,3,3,0,0,2,3}\ny = Pad(x, @p) {mode=\"reflect\"}\n"
        "return y\n",
        "x: u8[2,9,37]\nv: u8[]\n@p = i64[6] {0,1,3,0,0,2}\ny = Pad(x, @p, v)\nreturn y\n",
        "x: f16[2,4,9,31]\n@p = i64[8] {1,0,-2,-3,0,1,1,5}\ny = Pad(x, @p) {mode=\"edge\"}\n"
        "return y\n",
        "x: i64[5,7]\n@p = i64[4] {1,2,1,1}\ny = Pad(x, @p)\nreturn y\n",
        "x: f32[2,3]\n@p = i64[4] {1,-1,-1,2}\nv: f32[]\ny = Pad(x, @p, v)\nreturn y\n",
        "x: f32[2,3,5,6]\n@p = i64[4] {1,2,3,4}\n@a = i64[2] {-1,2}\n"
        "y = Pad(x, @p, _, @a) {mode=\"reflect\"}\nreturn y\n",
        "x: f32[3,4,5]\n@p = i64[6] {0,2,1,0,3,2}\ny = Pad(x, @p) {mode=\"edge\"}\nreturn y\n",
        "x: f32[3,4,5]\n@p = i64[6] {0,2,1,1,3,2}\ny = Pad(x, @p) {mode=\"wrap\"}\nreturn y\n",
        "x: i32[3]\n@p = i64[2] {9,8}\ny = Pad(x, @p) {mode=\"reflect\"}\nreturn y\n",
        "x: i8[3]\n@p = i64[2] {9,8}\ny = Pad(x, @p) {mode=\"wrap\"}\nreturn y\n",
        "x: f32[0,3]\n@p = i64[4] {1,0,1,2}\ny = Pad(x, @p)\nreturn y\n",
        "x: f32[1,2]\n@p = i64[4] {0,0,0,0}\ny = Pad(x, @p)\nreturn y\n",
        "x: f32[20,8,3]\n@s = i64[3] {10,9,3}\ny = CenterCropPad(x, @s)\nreturn y\n",
    };
    ALL(texts);
}

static void views(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,3,4,5]\n@s = i64[2] {2,60}\ny = Reshape(x, @s)\nreturn y\n",
        "x: f32[2,12,4,5]\n@s = i64[5] {2,3,4,4,5}\ny = Reshape(x, @s)\nreturn y\n",
        "x: f32[2,3,4,5]\ny = Flatten(x) {axis=2}\nreturn y\n",
        "x: f32[2,1,4,5]\n@a = i64[1] {1}\ny = Squeeze(x, @a)\nreturn y\n",
        "x: f32[2,4,5]\n@a = i64[1] {1}\ny = Unsqueeze(x, @a)\nreturn y\n",
        "x: f32[2,4,5]\ny = Identity(x)\nreturn y\n",
    };
    ALL(texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes),     cmocka_unit_test(turns),   cmocka_unit_test(slices),
        cmocka_unit_test(joins_and_cuts), cmocka_unit_test(repeats), cmocka_unit_test(blocks),
        cmocka_unit_test(pads),           cmocka_unit_test(views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
