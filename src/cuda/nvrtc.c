/* nvrtc.c -- kernel text to an image for one class of GPUs, by NVIDIA's compiler library.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "cuda/image.h"
#include "cuda/kernel_sources.h"
#include "cuda/library.h"

typedef struct nvrtc_program *program;

/* clang-format off */
#define SYMBOLS(X)                                                                                 \
    X(version, nvrtcVersion, (int *major, int *minor))                                             \
    X(create, nvrtcCreateProgram, (program *out, const char *text, const char *name, int n,        \
      const char *const *headers, const char *const *names))                                       \
    X(compile, nvrtcCompileProgram, (program p, int n, const char *const *options))                \
    X(destroy, nvrtcDestroyProgram, (program *p))                                                  \
    X(log_size, nvrtcGetProgramLogSize, (program p, size_t *n))                                    \
    X(log, nvrtcGetProgramLog, (program p, char *text))                                            \
    X(cubin_size, nvrtcGetCUBINSize, (program p, size_t *n))                                       \
    X(cubin, nvrtcGetCUBIN, (program p, char *bytes))
/* clang-format on */

typedef struct {
#define X(field, symbol, arguments) int(*field) arguments;
    SYMBOLS(X)
#undef X
    bool found;
    int major, minor;
} nvrtc;

enum { MOST_HEADERS = 32 };

static nvrtc rtc;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_nvrtc(void)
{
    const cm_library *l = cm_library_get(CM_LIBRARY_NVRTC);
    const cm_symbol symbols[] = {
#define X(field, symbol, arguments) {#symbol, (void **)&rtc.field},
        SYMBOLS(X)
#undef X
    };
    rtc.found = l->handle && !cm_library_symbols(l, symbols, CM_COUNT(symbols)) &&
                rtc.version(&rtc.major, &rtc.minor) == 0;
}

/* The text of t: its own, or that of the file of kernels/ that it names. */
static cm_status text_of(cm_ctx *cx, const cm_kernel_text *t, const char **out)
{
    const cm_kernel_source *s = t->text ? NULL : cm_kernel_sources();
    if (!t->text && !s)
        return cm_fail_memory(cx);
    *out = t->text;
    for (size_t n = strlen(t->file); !*out && s->name; s++)
        if (strncmp(s->name, t->file, n) == 0 && strcmp(s->name + n, ".cu") == 0)
            *out = s->text;
    return *out ? CM_OK : cm_fail(cx, CM_ERR_INTERNAL, "there is no kernel file %s.cu", t->file);
}

static bool is_header(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, ".cuh") == 0;
}

static void architecture(const cm_kernel_text *t, int level, char *buf, size_t n)
{
    snprintf(buf, n, "--gpu-architecture=sm_%d%s", level / 10, t->needs_a ? "a" : "");
}

static void hash(cm_image_key *k, const char *text)
{
    for (int i = 0; i < CM_COUNT(k->v); i++)
        k->v[i] = cm_hash_bytes(text, strlen(text) + 1, k->v[i]);
}

static const cm_image_key first_key = {{1, 0x9e3779b97f4a7c15u}};
static cm_image_key of_headers;
static pthread_once_t hashed = PTHREAD_ONCE_INIT;

static void hash_headers(void)
{
    of_headers = first_key;
    for (const cm_kernel_source *s = cm_kernel_sources(); s->name; s++)
        if (is_header(s->name))
            hash(&of_headers, s->text);
}

cm_status cm_kernel_key(cm_ctx *cx, const cm_kernel_text *t, int level, cm_image_key *out)
{
    char arch[64];
    const char *text;
    CM_TRY(text_of(cx, t, &text));
    architecture(t, level, arch, sizeof arch);
    *out = first_key;
    if (!t->text) { /* our own may include our headers */
        pthread_once(&hashed, hash_headers);
        *out = of_headers;
    }
    hash(out, arch);
    hash(out, t->defines ? t->defines : "");
    hash(out, text);
    return CM_OK;
}

/* What the compiler said first, as part of our sentence. */
static cm_status compile_failed(cm_ctx *cx, program p, const cm_kernel_text *t, const char *arch)
{
    size_t n = 0;
    const char *said = "no reason given";
    char *text = NULL;
    if (rtc.log_size(p, &n) == 0 && n && (text = cm_alloc(cx->allocator, n, 1)) != NULL &&
        rtc.log(p, text) == 0) {
        text[n - 1] = 0;
        const char *error = strstr(text, "error");
        said = error ? error : text;
        while (said > text && said[-1] != '\n')
            said--;
    }
    cm_status st =
        cm_fail(cx, CM_ERR_INTERNAL, "kernel %s of %s.cu does not compile for %s: %.*s", t->entry,
                t->file, arch + strlen("--gpu-architecture="), (int)strcspn(said, "\n"), said);
    cm_release(cx->allocator, text, n);
    return st;
}

static cm_status take_image(cm_ctx *cx, program p, const cm_image_key *key, const cm_image **out)
{
    size_t n = 0;
    if (rtc.cubin_size(p, &n) != 0 || n == 0)
        return cm_fail(cx, CM_ERR_INTERNAL, "NVRTC gives no image");
    char *bytes = cm_alloc(cx->allocator, n, 16);
    *out = bytes && rtc.cubin(p, bytes) == 0 ? cm_image_add(key, bytes, n) : NULL;
    cm_release(cx->allocator, bytes, n);
    return *out ? CM_OK : cm_fail_memory(cx);
}

static cm_status compile(cm_ctx *cx, const cm_kernel_text *t, int level, const char *text,
                         const cm_image_key *key, const cm_image **out)
{
    const char *headers[MOST_HEADERS], *names[MOST_HEADERS];
    const char *options[4] = {0};
    char arch[64], name[96];
    int n = 0, n_options = 0;
    program p;
    for (const cm_kernel_source *s = t->text ? NULL : cm_kernel_sources(); s && s->name; s++) {
        if (!is_header(s->name) || n == MOST_HEADERS)
            continue;
        headers[n] = s->text;
        names[n++] = s->name;
    }
    architecture(t, level, arch, sizeof arch);
    snprintf(name, sizeof name, "%s.cu", t->file);
    options[n_options++] = arch;
    options[n_options++] = "--std=c++17";
    if (!t->text && (rtc.major > 12 || (rtc.major == 12 && rtc.minor >= 4)))
        options[n_options++] = "--minimal";
    if (rtc.create(&p, text, name, n, headers, names) != 0)
        return cm_fail(cx, CM_ERR_MEMORY, "NVRTC cannot begin kernel %s", t->entry);
    cm_status st = CM_OK;
    if (rtc.compile(p, n_options, options) != 0)
        st = compile_failed(cx, p, t, arch);
    if (st == CM_OK)
        st = take_image(cx, p, key, out);
    rtc.destroy(&p);
    return st;
}

cm_status cm_kernel_compile(cm_ctx *cx, const cm_kernel_text *t, int level, const cm_image_key *key,
                            const cm_image **out)
{
    pthread_once(&once, open_nvrtc);
    if (!rtc.found)
        return cm_fail(cx, CM_ERR_DEVICE,
                       "libnvrtc was not found, and the plan holds no image of kernel %s for sm_%d",
                       t->entry, level / 10);
    const char *kernel;
    CM_TRY(text_of(cx, t, &kernel));
    if (t->text)
        return compile(cx, t, level, kernel, key, out);
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_buf_str(&text, "#include \"common.cuh\"\n");
    cm_buf_str(&text, t->defines ? t->defines : "");
    cm_buf_printf(&text, "\n#line 1 \"%s.cu\"\n", t->file);
    cm_buf_str(&text, kernel);
    const char *whole = cm_buf_text(&text);
    cm_status st = text.failed ? cm_fail_memory(cx) : compile(cx, t, level, whole, key, out);
    cm_buf_deinit(&text);
    return st;
}
