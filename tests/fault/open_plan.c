/* open_plan.c -- opening a plan of 100 MB touches none of its weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The weights' pages are made unreadable while the plan is opened, so touching one is a crash. The time
 * that opening the file takes is printed, not judged. */
#include "fault/models.h"

#include <stdio.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 5000 };

static void write_plan(const char *path)
{
    cameo_network *net = NULL;
    cameo_error error;
    float *w = malloc(sizeof *w * SIDE * SIDE);
    assert_non_null(w);
    for (int i = 0; i < SIDE * SIDE; i++)
        w[i] = (float)(i % 1013) * 1e-3f;
    const cameo_tensor t = {CAMEO_F32, 2, {SIDE, SIDE}, w, sizeof *w * SIDE * SIDE};
    assert_int_equal(cameo_network_create("large", NULL, &net, &error), CAMEO_OK);
    assert_int_equal(
        cameo_network_add_input(net, "x", CAMEO_F32, 2, (const int64_t[]){-1, SIDE}, NULL, &error),
        CAMEO_OK);
    assert_int_equal(cameo_network_add_constant(net, "w", &t, &error), CAMEO_OK);
    free(w);
    assert_int_equal(cameo_network_add_node(net, "MatMul", "mm", 2, (const char *const[]){"x", "w"},
                                            1, (const char *const[]){"y"}, 0, NULL, &error),
                     CAMEO_OK);
    assert_int_equal(cameo_network_mark_output(net, "y", &error), CAMEO_OK);
    assert_int_equal(cameo_build_file(net, NULL, path, &error), CAMEO_OK);
    cameo_network_destroy(net);
}

/* Where the weights lie. */
static void find_weights(const unsigned char *plan, uint64_t *offset, uint64_t *size)
{
    uint32_t n;
    *size = 0;
    memcpy(&n, plan + 12, sizeof n);
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *e = plan + CM_PLAN_HEADER_BYTES + i * CM_PLAN_ENTRY_BYTES;
        uint32_t kind;
        memcpy(&kind, e, sizeof kind);
        if (kind == CM_SECTION_WEIGHTS) {
            memcpy(offset, e + 8, sizeof *offset);
            memcpy(size, e + 16, sizeof *size);
        }
    }
}

static void weights_are_not_touched(void **state)
{
    (void)state;
    char path[64];
    cameo_engine *e = NULL;
    cameo_error error;
    uint64_t offset = 0, size, page = (uint64_t)sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "/tmp/cameo-open-%d.plan", (int)getpid());
    write_plan(path);
    int fd = open(path, O_RDONLY);
    struct stat about;
    assert_true(fd >= 0 && fstat(fd, &about) == 0);
    unsigned char *plan = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(plan != MAP_FAILED);
    close(fd);
    find_weights(plan, &offset, &size);
    assert_true(size >= 100000000);
    uint64_t from = (offset + page - 1) / page * page, to = (offset + size) / page * page;
    assert_int_equal(mprotect(plan + from, to - from, PROT_NONE), 0);
    assert_int_equal(cameo_engine_open_memory(plan, (size_t)about.st_size, NULL, &e, &error),
                     CAMEO_OK);
    cameo_engine_release(e);
    munmap(plan, (size_t)about.st_size);
    uint64_t start = cm_now_ns();
    assert_int_equal(cameo_engine_open_file(path, NULL, &e, &error), CAMEO_OK);
    print_message("a plan of %lld bytes opened in %.3f ms\n", (long long)about.st_size,
                  (double)(cm_now_ns() - start) * 1e-6);
    cameo_engine_release(e);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_not_touched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
