/* digits.c -- reads handwritten digits with a plan: prints each picture and the three likeliest
 * digits.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     digits PLAN PICTURE.npy...
 *     digits PLAN --check PICTURES.npy LABELS.npy
 *
 * Uses the running half of the API only, so it links with libcameo-rt. */
#include <cameo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10 };

/* An npy file's elements as floats, without its shape: *n tells how many. Little-endian f4 and u1. */
static float *read_npy(const char *path, size_t *n)
{
    static unsigned char bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f)
        fclose(f);
    size_t start = size >= 10 ? 10 + bytes[8] + 256u * bytes[9] : 0;
    if (start == 0 || start >= size || memcmp(bytes, "\x93NUMPY\1", 7) != 0) {
        fprintf(stderr, "digits: %s is not an npy file\n", path);
        return NULL;
    }
    bytes[start - 1] = 0; /* the header's newline */
    int wide = strstr((char *)bytes + 10, "'<f4'") != NULL;
    *n = (size - start) / (wide ? sizeof(float) : 1);
    float *data = malloc(*n * sizeof *data);
    for (size_t i = 0; data && i < *n; i++)
        data[i] = bytes[start + i];
    if (data && wide)
        memcpy(data, bytes + start, *n * sizeof *data);
    return data;
}

static int failed(const cameo_error *error)
{
    fprintf(stderr, "digits: %s: %s\n", cameo_status_text(error->status), error->message);
    return 1;
}

/* Probabilities of `batch` pictures, CLASSES each: valid until the next run. */
static cameo_status classify(cameo_context *context, float *pictures, int64_t batch,
                             const float **probabilities, cameo_error *error)
{
    cameo_tensor in = {CAMEO_F32, 4, {batch, 1, SIDE, SIDE}, pictures, 0}, out;
    in.bytes = (size_t)batch * PIXELS * sizeof(float);
    cameo_status st = cameo_context_set_input(context, 0, &in, error);
    if (st == CAMEO_OK)
        st = cameo_context_run(context, 0, error);
    if (st == CAMEO_OK)
        st = cameo_context_output(context, 0, &out, error);
    if (st == CAMEO_OK)
        *probabilities = out.data;
    return st;
}

static int likeliest(const float *p, const int *taken, int n_taken)
{
    int best = -1;
    for (int c = 0; c < CLASSES; c++) {
        int skip = 0;
        for (int i = 0; i < n_taken; i++)
            skip |= taken[i] == c;
        if (!skip && (best < 0 || p[c] > p[best]))
            best = c;
    }
    return best;
}

static void show(const float *picture, const float *p)
{
    static const char shades[] = " .:-=+*#%";
    int top[3];
    for (int i = 0; i < 3; i++)
        top[i] = likeliest(p, top, i);
    for (int y = 0; y < SIDE; y++) {
        printf("    ");
        for (int x = 0; x < SIDE; x++) {
            char c = shades[(int)(picture[y * SIDE + x] / 2)];
            printf("%c%c", c, c);
        }
        if (y >= 2 && y < 5) {
            int c = top[y - 2], bar = (int)(p[c] * 30 + 0.5f);
            printf("    %d  %5.1f %%  %.*s", c, p[c] * 100, bar, "##############################");
        }
        printf("\n");
    }
}

static int show_files(cameo_context *context, int n_files, char **files)
{
    for (int i = 0; i < n_files; i++) {
        size_t n;
        const float *p;
        cameo_error error;
        float *picture = read_npy(files[i], &n);
        if (!picture || n != PIXELS) {
            free(picture);
            return 1;
        }
        if (classify(context, picture, 1, &p, &error) != CAMEO_OK) {
            free(picture);
            return failed(&error);
        }
        printf("  %s\n", files[i]);
        show(picture, p);
        free(picture);
    }
    return 0;
}

/* All pictures as one batch: the plan takes any. */
static int check(cameo_context *context, const char *pictures_path, const char *labels_path)
{
    size_t n, n_labels;
    const float *p;
    cameo_error error;
    float *pictures = read_npy(pictures_path, &n), *labels = read_npy(labels_path, &n_labels);
    int code = 1, right = 0;
    if (!pictures || !labels || n != n_labels * PIXELS)
        goto out;
    if (classify(context, pictures, (int64_t)n_labels, &p, &error) != CAMEO_OK) {
        failed(&error);
        goto out;
    }
    for (size_t i = 0; i < n_labels; i++)
        right += likeliest(p + i * CLASSES, NULL, 0) == (int)labels[i];
    printf("  %d of %zu held-out digits right: %.1f %%\n", right, n_labels,
           100.0 * right / (double)n_labels);
    code = 0;
out:
    free(pictures);
    free(labels);
    return code;
}

int main(int argc, char **argv)
{
    cameo_engine *engine = NULL;
    cameo_context *context = NULL;
    cameo_error error;
    if (argc < 3) {
        fprintf(stderr, "usage: digits PLAN PICTURE.npy...\n"
                        "       digits PLAN --check PICTURES.npy LABELS.npy\n");
        return 2;
    }
    if (cameo_engine_open_file(argv[1], NULL, &engine, &error) != CAMEO_OK)
        return failed(&error);
    int code;
    if (cameo_context_create(engine, NULL, &context, &error) != CAMEO_OK)
        code = failed(&error);
    else if (argc == 5 && strcmp(argv[2], "--check") == 0)
        code = check(context, argv[3], argv[4]);
    else
        code = show_files(context, argc - 2, argv + 2);
    cameo_context_destroy(context);
    cameo_engine_release(engine);
    return code;
}
