/* cuda_compile.c -- kernels compiled for a class of GPUs without one: the compiler library must be found.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/gpu.h"
#include "cuda/image.h"
#include "unit/needs_nvrtc.h"

static const int levels[] = {750, 800, 900, 1000};

static cm_device *open_class(cm_ctx *cx, int level)
{
    cm_device *d;
    const cm_target t = {CM_DEVICE_CUDA, level, 0};
    assert_int_equal(cm_backend_for(CM_DEVICE_CUDA)->api->open(cx, &t, &d), CM_OK);
    return d;
}

static void copies_compile_for_every_class(void **state)
{
    (void)state;
    needs_nvrtc();
    const cm_device_api *api = cm_backend_for(CM_DEVICE_CUDA)->api;
    for (int i = 0; i < CM_COUNT(levels); i++) {
        cm_ctx cx = {0};
        cm_device *d = open_class(&cx, levels[i]);
        if (api->copy_ready(&cx, d, 1) != CM_OK)
            fail_msg("%s", cx.message);
        assert_false(api->runs(d));
        api->close(d);
    }
}

static void an_error_of_the_compiler_is_a_sentence(void **state)
{
    (void)state;
    needs_nvrtc();
    cm_ctx cx = {0};
    cm_device *d = open_class(&cx, 900);
    const cm_kernel *k;
    cm_kernel_text t = {.file = "copy", .defines = "int broken = ;\n", .entry = "copy_1"};
    assert_int_equal(cm_gpu_kernel(&cx, d, &t, 0, &k), CM_ERR_INTERNAL);
    assert_non_null(strstr(cx.message, "does not compile for sm_90"));
    assert_non_null(strstr(cx.message, "error"));
    t.file = "nosuch";
    assert_int_equal(cm_gpu_kernel(&cx, d, &t, 0, &k), CM_ERR_INTERNAL);
    assert_non_null(strstr(cx.message, "nosuch.cu"));
    cm_backend_for(CM_DEVICE_CUDA)->api->close(d);
}

static void a_class_has_no_memory(void **state)
{
    (void)state;
    const cm_device_api *api = cm_backend_for(CM_DEVICE_CUDA)->api;
    cm_ctx cx = {0};
    cm_device *d = open_class(&cx, 800);
    void *p;
    assert_int_equal(api->alloc(&cx, d, 16, &p), CM_ERR_DEVICE);
    assert_string_equal(cx.message, "sm_80 is compiled for only: it is no device");
    api->close(d);
}

static void too_much_shared_memory_is_refused(void **state)
{
    (void)state;
    needs_nvrtc();
    cm_ctx cx = {0};
    cm_device *d = open_class(&cx, 750);
    const cm_kernel *k;
    cm_kernel_text t = {.file = "copy", .entry = "copy_1"};
    assert_int_equal(cm_gpu_kernel(&cx, d, &t, 60 << 10, &k), CM_OK);
    assert_int_equal(cm_gpu_kernel(&cx, d, &t, 100 << 10, &k), CM_ERR_INTERNAL);
    assert_non_null(strstr(cx.message, "shared memory"));
    cm_backend_for(CM_DEVICE_CUDA)->api->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_compile_for_every_class),
        cmocka_unit_test(an_error_of_the_compiler_is_a_sentence),
        cmocka_unit_test(a_class_has_no_memory),
        cmocka_unit_test(too_much_shared_memory_is_refused),
    };
    return cmocka_run_group_tests_name("cuda_compile", tests, NULL, NULL);
}
