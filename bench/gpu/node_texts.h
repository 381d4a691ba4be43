/* node_texts.h -- the nodes that nodes.c times: large tensors, as networks have them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef NODE_TEXTS_H
#define NODE_TEXTS_H

#define HEADS(h, kv, d)                                                                            \
    "q_num_heads=" #h ", kv_num_heads=" #kv ", head_size=" #d ", v_head_size=" #d
#define SELF(b, s, columns, h, d, more)                                                            \
    "x: f16[" #b "," #s "," #columns                                                               \
    "]\ny = cameo.Attention(x, x, x) {" HEADS(h, h, d) ", scale=0.1, " more "}\nreturn y\n"

/* Fractions of a copy: the same shapes in both float types. */
#define NORM_GROUPS(type, n, c, h, w)                                                              \
    "x: " #type "[" #n "," #c "," #h "," #w "]\n@s = " #type "[" #c "] random 1\n@b = " #type      \
    "[" #c "] random 2\ny = GroupNormalization(x, @s, @b) {num_groups=32}\nreturn y\n"
#define NORM_PIXELS(type, n, h, w, c)                                                              \
    "x: " #type "[" #n "," #h "," #w "," #c "]\n@s = " #type "[" #c "] random 1\n@b = " #type      \
    "[" #c "] random 2\n"                                                                          \
    "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=32}\nreturn y\n"
#define NORM_INSTANCES(type, n, c, h, w)                                                           \
    "x: " #type "[" #n "," #c "," #h "," #w "]\n@s = " #type "[" #c "] random 1\n@b = " #type      \
    "[" #c "] random 2\ny = InstanceNormalization(x, @s, @b)\nreturn y\n"
#define NORM_ROWS(type, rows, n)                                                                   \
    "x: " #type "[" #rows "," #n "]\n@s = " #type "[" #n "] random 1\n@b = " #type                 \
    "[" #n "] random 2\ny = LayerNormalization(x, @s, @b)\nreturn y\n"
#define NORM_RMS(type, rows, n)                                                                    \
    "x: " #type "[" #rows "," #n "]\n@s = " #type                                                  \
    "[" #n "] random 1\ny = RMSNormalization(x, @s)\nreturn y\n"
#define RESIZED(type, n, c, h, w, attributes)                                                      \
    "x: " #type "[" #n "," #c "," #h "," #w "]\n@s = f32[4] {1,1,2,2}\n"                           \
    "y = Resize(x, _, @s) {" attributes "}\nreturn y\n"
#define NEAREST                                                                                    \
    "mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\""
#define PADDED(type, n, c, h, w, pads, mode)                                                       \
    "x: " #type "[" #n "," #c "," #h "," #w "]\n@p = i64[8] {" pads "}\n"                          \
    "y = Pad(x, @p) {mode=\"" mode "\"}\nreturn y\n"
#define FIRST(type, rows, n, k)                                                                    \
    "x: " #type "[" #rows "," #n "]\n@k = i64[1] {" #k "}\ny, i = TopK(x, @k)\nreturn y, i\n"
#define PICKED(type, rows, n, m, axis)                                                             \
    "x: " #type "[" #rows "," #n "]\n@i = i64[" #rows "," #m "] random 1\n"                        \
    "y = GatherElements(x, @i) {axis=" #axis "}\nreturn y\n"
#define ARG(type, shape, axis)                                                                     \
    "x: " #type "[" shape "]\ny = ArgMax(x) {axis=" #axis "}\nreturn y\n"
#define RUNNING(type, shape, axis)                                                                 \
    "x: " #type "[" shape "]\n@a = i64[] {" #axis "}\ny = CumSum(x, @a)\nreturn y\n"
#define MEAN(n, c, h, w)                                                                           \
    "x: f16[" #n "," #c "," #h "," #w "]\ny = GlobalAveragePool(x)\nreturn y\n"
#define LARGEST(n, c, h, w)                                                                        \
    "x: f16[" #n "," #c "," #h "," #w "]\n"                                                        \
    "y = MaxPool(x) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}\nreturn y\n"
#define TURNED(type, shape, perm)                                                                  \
    "x: " #type "[" shape "]\ny = Transpose(x) {perm=[" perm "]}\nreturn y\n"

static const char *const texts[] = {
    "x: f16[65536,768]\ny = Softmax(x)\nreturn y\n",
    "x: f32[65536,1000]\ny = Softmax(x)\nreturn y\n",
    "x: f16[4096,32000]\ny = Softmax(x)\nreturn y\n",
    "x: f16[16,64,512,512]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[65536,768]\n@s = f16[768] random 1\n@b = f16[768] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f16[3072,768]\n@s = f16[768] random 1\n@b = f16[768] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f16[128,768]\n@s = f16[768] random 1\n@b = f16[768] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f16[384,1024]\n@s = f16[1024] random 1\n@b = f16[1024] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f16[6304,768]\n@s = f16[768] random 1\n@b = f16[768] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f32[65536,1024]\n@s = f32[1024] random 1\n@b = f32[1024] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f16[32768,4096]\n@s = f16[4096] random 1\ny = RMSNormalization(x, @s)\nreturn y\n",
    "x: f16[1,32768,4096]\nk: f16[1,32768,4096]\n@s = f16[4096] random 1\n"
    "y, _, _, t = com.microsoft.SkipSimplifiedLayerNormalization(x, k, @s)\nreturn y, t\n",
    "x: f16[16,320,64,64]\n@s = f16[320] random 1\n@b = f16[320] random 2\n"
    "y = GroupNormalization(x, @s, @b) {num_groups=32}\nreturn y\n",
    "x: f16[2,64,64,320]\n@s = f32[320] random 1\n@b = f32[320] random 2\n"
    "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=32}\nreturn y\n",
    "x: f16[16,128,128,320]\n@s = f32[320] random 1\n@b = f32[320] random 2\n"
    "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=32}\nreturn y\n",
    SELF(8, 2048, 3072, 16, 64, "offsets=[0,1024,2048]"),
    SELF(8, 2048, 3072, 16, 64, "is_causal=1, offsets=[0,1024,2048]"),
    SELF(8, 2048, 6144, 16, 128, "offsets=[0,2048,4096]"),
    SELF(8, 2048, 6144, 16, 128, "is_causal=1, offsets=[0,2048,4096]"),
    SELF(8, 384, 2304, 12, 64, "offsets=[0,768,1536]"),
    SELF(32, 384, 2304, 12, 64, "offsets=[0,768,1536]"),
    SELF(1, 128, 2304, 12, 64, "offsets=[0,768,1536]"),
    SELF(1, 384, 3072, 16, 64, "offsets=[0,1024,2048]"),
    SELF(32, 197, 2304, 12, 64, "offsets=[0,768,1536]"),
    SELF(1, 197, 2304, 12, 64, "offsets=[0,768,1536]"),
    "x: f16[8,384,2304]\nm: bool[8,1,1,384]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
        12, 12, 64) ", scale=0.1, offsets=[0,768,1536]}\nreturn y\n",
    "q: f16[8,1,4096]\nk: f16[8,8,8192,128]\nv: f16[8,8,8192,128]\ny = cameo.Attention(q, k, v) "
    "{" HEADS(32, 8, 128) ", scale=0.1, k_layout=\"bhsd\", v_layout=\"bhsd\"}\nreturn y\n",
    "x: f32[8,1024,3072]\ny = cameo.Attention(x, x, x) {" HEADS(
        16, 16, 64) ", scale=0.1, offsets=[0,1024,2048]}\nreturn y\n",
    "x: f32[8192,8192]\ny = Sigmoid(x)\nreturn y\n",
    "x: f16[8192,16384]\ny = Erf(x)\nreturn y\n",
    "x: f16[64,512,2048]\n@b = f16[2048] random 1\ny = Add(x, @b)\nreturn y\n",
    "x: f16[64,512,2048]\n@b = f16[512,1] random 1\ny = Mul(x, @b)\nreturn y\n",
    "x: f16[8192,8192]\nb: f16[8192,8192]\n"
    "y = cameo.Pointwise(x, b) {program=\"mul $0 0.5; add %0 $1; silu %1\", to=[10]}\nreturn y\n",
    "x: f32[8192,8192]\ny = Cast(x) {to=10}\nreturn y\n",
    "x: f32[8192,8192]\n@a = i64[1] {-1}\ny = ReduceSum(x, @a) {keepdims=0}\nreturn y\n",
    "x: f16[16384,8192]\n@a = i64[1] {-1}\ny = ReduceMean(x, @a) {keepdims=0}\nreturn y\n",
    "x: f16[16384,8192]\n@a = i64[1] {0}\ny = ReduceMax(x, @a) {keepdims=0}\nreturn y\n",
    "x: f16[64,2048,32,32]\n@a = i64[2] {2,3}\ny = ReduceMean(x, @a)\nreturn y\n",
    "x: f16[8,1280,7,7]\n@a = i64[2] {2,3}\ny = ReduceMean(x, @a)\nreturn y\n",
    MEAN(8, 32, 112, 112),
    MEAN(8, 96, 56, 56),
    MEAN(8, 144, 28, 28),
    MEAN(8, 1152, 7, 7),
    MEAN(1, 2048, 7, 7),
    MEAN(128, 2048, 7, 7),
    LARGEST(8, 24, 112, 112),
    LARGEST(2, 64, 112, 112),
    LARGEST(128, 64, 112, 112),
    "x: f32[64,1024,1024]\n@a = i64[1] {1}\ny = ReduceSum(x, @a)\nreturn y\n",
    "x: f32[67108864]\n@a = i64[1] {0}\ny = ReduceSum(x, @a)\nreturn y\n",
    "x: f16[16384,8192]\ny = ArgMax(x) {axis=-1}\nreturn y\n",
    "x: f32[64,1024,1024]\ny = ArgMax(x) {axis=1}\nreturn y\n",
    "x: f16[64,512,56,56]\ny = Transpose(x) {perm=[0,2,3,1]}\nreturn y\n",
    "x: f32[64,56,56,256]\ny = Transpose(x) {perm=[0,3,1,2]}\nreturn y\n",
    "x: f16[32,2048,16,64]\ny = Transpose(x) {perm=[0,2,1,3]}\nreturn y\n",
    "x: u8[8192,16384]\ny = Transpose(x) {perm=[1,0]}\nreturn y\n",
    "x: f16[64,256,56,56]\nz: f16[64,256,56,56]\ny = Concat(x, z) {axis=1}\nreturn y\n",
    "x: f16[65536,1000]\nz: f16[65536,24]\ny = Concat(x, z) {axis=-1}\nreturn y\n",
    "x: f16[8192,16384]\n@b = i64[1] {100}\n@e = i64[1] {16000}\n@a = i64[1] {1}\n"
    "y = Slice(x, @b, @e, @a)\nreturn y\n",
    "x: f16[64,256,56,56]\n@p = i64[8] {0,0,1,1,0,0,1,1}\ny = Pad(x, @p)\nreturn y\n",
    "x: f16[8192,1,4096]\n@s = i64[3] {1,4,1}\ny = Tile(x, @s)\nreturn y\n",
    "x: f16[50000,4096]\n@i = i64[16384] random 1\ny = Gather(x, @i)\nreturn y\n",
    "x: f32[4096,8192]\n@i = i64[4096,8192] random 1\ny = GatherElements(x, @i) {axis=1}\n"
    "return y\n",
    "x: f32[8192,8192]\n@i = i64[8192,1] random 1\nu: f32[8192,8192]\n"
    "y = ScatterND(x, @i, u)\nreturn y\n",
    "x: f16[32,128,112,112]\n@s = f32[4] {1,1,2,2}\n"
    "y = Resize(x, _, @s) {mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
    "nearest_mode=\"floor\"}\nreturn y\n",
    "x: f16[32,128,112,112]\n@s = f32[4] {1,1,2,2}\ny = Resize(x, _, @s) {mode=\"linear\"}\n"
    "return y\n",
    "x: f32[16,64,128,128]\n@s = f32[4] {1,1,2,2}\ny = Resize(x, _, @s) {mode=\"cubic\"}\n"
    "return y\n",
    "x: f32[8192,8192]\n@a = i64[] {1}\ny = CumSum(x, @a)\nreturn y\n",
    "x: f16[64,1024,1024]\n@a = i64[] {1}\ny = CumSum(x, @a)\nreturn y\n",
    "x: f32[256,32000]\n@k = i64[1] {50}\ny, i = TopK(x, @k)\nreturn y, i\n",
    "x: f32[4096,1000]\n@k = i64[1] {5}\ny, i = TopK(x, @k)\nreturn y, i\n",
    NORM_GROUPS(f16, 8, 320, 64, 64),
    NORM_GROUPS(f32, 8, 320, 64, 64),
    NORM_GROUPS(f16, 64, 320, 64, 64),
    NORM_GROUPS(f16, 16, 512, 128, 128),
    NORM_GROUPS(f16, 2, 512, 128, 128),
    NORM_GROUPS(f32, 2, 512, 128, 128),
    NORM_GROUPS(f32, 4, 128, 512, 512),
    NORM_GROUPS(f16, 64, 256, 14, 14),
    NORM_INSTANCES(f16, 32, 64, 128, 128),
    NORM_INSTANCES(f32, 32, 64, 128, 128),
    NORM_INSTANCES(f32, 64, 256, 56, 56),
    NORM_INSTANCES(f16, 8, 32, 512, 512),
    "x: f16[16,16384,512]\n@s = f16[512] random 1\n@b = f16[512] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    "x: f32[512,131072]\ny = Softmax(x)\nreturn y\n",
    "x: f16[4096,32000]\ny = LogSoftmax(x)\nreturn y\n",
    "x: f16[2048,50257]\ny = Softmax(x)\nreturn y\n",
    "x: f32[8,21,512,512]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[256,1000,196]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f32[64,512,1024]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[128,4096,64]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[8192,16384]\n@s = f16[16384] random 1\n@b = f16[16384] random 2\n"
    "y = LayerNormalization(x, @s, @b)\nreturn y\n",
    NORM_ROWS(f16, 16384, 8192),
    NORM_ROWS(f32, 8192, 8192),
    NORM_ROWS(f32, 4096, 16384),
    NORM_RMS(f16, 8192, 16384),
    NORM_RMS(bf16, 16384, 8192),
    "x: bf16[2048,50257]\ny = Softmax(x)\nreturn y\n",
    "x: f32[2048,50257]\ny = Softmax(x)\nreturn y\n",
    "x: f16[1024,128256]\ny = Softmax(x)\nreturn y\n",
    "x: f16[64,1024,1024]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[512,1000,49]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f32[128,1000,196]\ny = Softmax(x) {axis=1}\nreturn y\n",
    "x: f16[8,150,512,512]\ny = LogSoftmax(x) {axis=1}\nreturn y\n",
    "x: f16[8,16384,512]\ny = Softmax(x) {axis=1}\nreturn y\n",
    NORM_PIXELS(f16, 16, 128, 128, 320),
    NORM_PIXELS(f16, 2, 64, 64, 320),
    NORM_PIXELS(f16, 2, 32, 32, 640),
    NORM_PIXELS(f16, 2, 16, 16, 1280),
    NORM_PIXELS(f16, 8, 128, 128, 512),
    NORM_PIXELS(f16, 2, 128, 128, 512),
    NORM_PIXELS(f16, 8, 32, 32, 1280),
    NORM_PIXELS(f16, 8, 64, 64, 320),
    NORM_PIXELS(f16, 64, 56, 56, 256),
    NORM_PIXELS(f32, 8, 128, 128, 256),
    NORM_PIXELS(f16, 4, 256, 256, 128),
    "x: f16[64,1024,1024]\n@a = i64[1] {1}\ny = ReduceMean(x, @a)\nreturn y\n",
    "x: f16[64,1024,1024]\n@a = i64[1] {1}\ny = ReduceMax(x, @a)\nreturn y\n",
    RESIZED(f16, 8, 256, 64, 64, NEAREST),
    RESIZED(f32, 8, 256, 64, 64, NEAREST),
    RESIZED(f16, 8, 256, 64, 64, "mode=\"linear\""),
    RESIZED(f32, 8, 256, 64, 64, "mode=\"linear\""),
    RESIZED(f32, 8, 32, 256, 256, "mode=\"linear\", coordinate_transformation_mode=\"align_corners\""),
    "x: f16[16,56,56,256]\n@s = f32[4] {1,2,2,1}\ny = Resize(x, _, @s) {mode=\"linear\"}\nreturn y\n",
    "x: f16[16,56,56,256]\n@s = f32[4] {1,2,2,1}\ny = Resize(x, _, @s) {" NEAREST "}\nreturn y\n",
    "x: f32[8,64,512,512]\n@s = f32[4] {1,1,0.5,0.5}\ny = Resize(x, _, @s) {mode=\"linear\"}\nreturn y\n",
    PADDED(f32, 64, 256, 56, 56, "0,0,1,1,0,0,1,1", "constant"),
    PADDED(f16, 8, 64, 256, 256, "0,0,3,3,0,0,3,3", "reflect"),
    PADDED(f32, 8, 64, 256, 256, "0,0,3,3,0,0,3,3", "reflect"),
    PADDED(f16, 8, 64, 256, 256, "0,0,3,3,0,0,3,3", "constant"),
    PADDED(f16, 16, 56, 56, 256, "0,1,1,0,0,1,1,0", "constant"),
    FIRST(f16, 4096, 1000, 5),
    FIRST(f32, 16384, 1000, 5),
    FIRST(f32, 1024, 32000, 50),
    FIRST(f16, 1024, 32000, 50),
    FIRST(f32, 256, 100000, 100),
    FIRST(f32, 8, 100000, 100),
    FIRST(f32, 1, 4000000, 100),
    FIRST(f32, 1, 32000, 50),
    FIRST(f16, 64, 128256, 50),
    FIRST(f32, 4096, 8192, 8),
    FIRST(f32, 1, 1000000, 50),
    FIRST(f16, 1, 152064, 50),
    FIRST(f32, 32, 32000, 50),
    FIRST(f32, 1, 8400, 300),
    FIRST(f32, 1, 120087, 1000),
    PICKED(f16, 4096, 8192, 8192, 1),
    PICKED(f32, 8192, 4096, 4096, 0),
    PICKED(f32, 32768, 1024, 1024, 1),
    ARG(f32, "8192,8192", -1),
    ARG(f16, "64,1024,1024", 1),
    ARG(f16, "65536,1000", -1),
    ARG(f32, "8,21,512,512", 1),
    RUNNING(f16, "8192,8192", 1),
    RUNNING(f32, "64,1024,1024", 1),
    RUNNING(f32, "65536,1000", 1),
    RUNNING(f32, "8,4000000", 1),
    RUNNING(f32, "8192,8192", 0),
    TURNED(f32, "8192,8192", "1,0"),
    TURNED(f16, "32,3,14,16,14,16", "0,2,4,1,3,5"),
    "x: f16[32,1,768]\nz: f16[32,196,768]\ny = Concat(x, z) {axis=1}\nreturn y\n",
    TURNED(f16, "16,3,512,512", "0,2,3,1"),
    TURNED(f16, "16,512,512,3", "0,3,1,2"),
    TURNED(f32, "16,3,512,512", "0,2,3,1"),
    TURNED(f32, "16,512,512,3", "0,3,1,2"),
    TURNED(u8, "64,3,512,512", "0,2,3,1"),
    TURNED(u8, "64,512,512,3", "0,3,1,2"),
    TURNED(f16, "64,3,299,299", "0,2,3,1"),
    TURNED(f16, "64,299,299,3", "0,3,1,2"),
    TURNED(f16, "64,4,256,256", "0,2,3,1"),
    TURNED(f16, "64,256,256,8", "0,3,1,2"),
    TURNED(u8, "64,56,56,256", "0,3,1,2"),
    TURNED(u8, "64,255,57,57", "0,2,3,1"),
    TURNED(f16, "64,255,57,57", "0,2,3,1"),
    TURNED(f16, "64,57,57,255", "0,3,1,2"),
    TURNED(f32, "64,255,57,57", "0,2,3,1"),
    TURNED(f32, "64,57,57,255", "0,3,1,2"),
    TURNED(f32, "8,21,512,512", "0,2,3,1"),
    TURNED(f32, "8,512,512,21", "0,3,1,2"),
    TURNED(u8, "64,57,57,255", "0,3,1,2"),
    TURNED(f16, "16,19,512,512", "0,2,3,1"),
    TURNED(f16, "4097,16383", "1,0"),
    TURNED(i64, "4095,4097", "1,0"),
    TURNED(f16, "64,12,512,64", "0,2,1,3"),
    "x: f32[64,255,57,57]\nz: f32[64,3,57,57]\ny = Concat(x, z) {axis=1}\nreturn y\n",
    "x: f16[64,258,57,57]\n@s = i64[2] {255,3}\ny, z = Split(x, @s) {axis=1}\nreturn y, z\n",
    "x: f16[16384,3072]\n@s = i64[3] {1024,1024,1024}\ny, z, w = Split(x, @s) {axis=1}\n"
    "return y, z, w\n",
    "x: f16[65536,1001]\nz: f16[65536,23]\ny = Concat(x, z) {axis=-1}\nreturn y\n",
    "x: f16[64,8,1,128,128]\n@s = i64[5] {64,8,4,128,128}\ny = Expand(x, @s)\nreturn y\n",
    "x: f16[8192,1]\n@s = i64[2] {8192,8192}\ny = Expand(x, @s)\nreturn y\n",
    "x: f16[4096,1000]\n@s = i64[2] {1,9}\ny = Tile(x, @s)\nreturn y\n",
    "x: f16[64,512,768]\n@i = i64[256] random 1\ny = Gather(x, @i) {axis=1}\nreturn y\n",
    "x: f16[4096,8192]\n@i = i64[8192] random 1\ny = Gather(x, @i) {axis=1}\nreturn y\n",
    "x: f16[30522,1023]\n@i = i64[16384] random 1\ny = Gather(x, @i)\nreturn y\n",
    "x: f16[8192,8192]\n@i = i64[8192,1] random 1\nu: f16[8192,8192]\n"
    "y = ScatterND(x, @i, u)\nreturn y\n",
    "x: f16[4096,8192]\n@i = i64[4096,8192] random 1\nu: f16[4096,8192]\n"
    "y = ScatterElements(x, @i, u) {axis=1}\nreturn y\n",
    "x: f16[64,255,57,57]\nz: f16[64,3,57,57]\ny = Concat(x, z) {axis=1}\nreturn y\n",
    "x: f16[8192,16384]\n@b = i64[1] {1}\n@e = i64[1] {16000}\n@a = i64[1] {1}\n"
    "y = Slice(x, @b, @e, @a)\nreturn y\n",
    "x: f32[8192,8192]\n@b = i64[1] {0}\n@e = i64[1] {8192}\n@a = i64[1] {1}\n@t = i64[1] {2}\n"
    "y = Slice(x, @b, @e, @a, @t)\nreturn y\n",
    "x: f32[8192,8192]\n@s = f32[] {0.037}\n@z = u8[] {131}\ny = QuantizeLinear(x, @s, @z)\n"
    "return y\n",
    "x: u8[8192,8192]\n@s = f32[] {0.037}\n@z = u8[] {131}\ny = DequantizeLinear(x, @s, @z)\n"
    "return y\n",
    "x: u8[8192,1024]\n@w = i8[1024,4096] random 1\ny = MatMulInteger(x, @w)\nreturn y\n",
    "x: f32[8,64,256,256]\ng: f32[8,256,256,2]\ny = GridSample(x, g)\nreturn y\n",
};

#endif
