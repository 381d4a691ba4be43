# Cameo's build. `make help` lists what there is to make.
# SPDX-License-Identifier: Apache-2.0

VERSION  := 0.1.0
SOVERSION := 0
B        ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
CC       ?= cc
SAN      ?=
OPT      ?= -O2

ifneq ($(SAN),)
override B := $(B)-$(SAN)
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif

CPPFLAGS := -Iinclude -Isrc -I$(B)/gen -D_GNU_SOURCE -DCM_VERSION='"$(VERSION)"'
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
            -Wno-missing-field-initializers
# Sanitised libraries show all they have: see TEST_LIBS.
CFLAGS   := -std=gnu11 $(OPT) -g -fPIC -fvisibility=$(if $(SAN),default,hidden) -ffp-contract=off -pthread \
            $(WARN) $(SANFLAGS) $(EXTRA_CFLAGS)
LDLIBS   := -lcpuinfo -lz -ljansson -ljpeg -lpng -lpcre2-8 -ldl -lm -pthread
LDFLAGS  := $(SANFLAGS) -Wl,--as-needed
WHOLE    = -Wl,--whole-archive $(B)/libcameo.a -Wl,--no-whole-archive

# All cores, unless the user said how many; no commands, but every warning.
JOBS       = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
QUIET_MAKE = $(MAKE) --no-print-directory -s $(JOBS)

# What runs plans, and what compiles them.
RT_ROOMS   := base plan ops runtime cpu cuda
FULL_ROOMS := $(RT_ROOMS) ir onnx passes lower tune io quant serve llm
src = $(wildcard $(addsuffix /*.c,$(addprefix src/,$(1))) $(addsuffix /*/*.c,$(addprefix src/,$(1))))
RT_SRC   := $(call src,$(RT_ROOMS)) $(wildcard src/api/rt*.c)
LIB_SRC  := $(call src,$(FULL_ROOMS)) $(wildcard src/api/*.c)
CLI_SRC  := $(wildcard src/cli/*.c)
UNIT_SRC := $(wildcard tests/unit/*.c tests/fault/*.c tests/op/*.c)

obj = $(patsubst %.c,$(B)/%.o,$(1))
KERNELS  := $(sort $(wildcard src/cuda/kernels/*.cu src/cuda/kernels/*.cuh))
RT_OBJ   := $(call obj,$(RT_SRC)) $(B)/gen/kernels.o
LIB_OBJ  := $(call obj,$(LIB_SRC)) $(B)/gen/kernels.o
CLI_OBJ  := $(call obj,$(CLI_SRC))
UNIT_BIN := $(patsubst %.c,$(B)/%,$(UNIT_SRC))

.PHONY: all lib cli unit test lint format clean help
all: lib cli
lib: $(foreach l,cameo cameo-rt,$(B)/lib$(l).a $(B)/lib$(l).so)
cli: $(if $(CLI_SRC),$(B)/cameo)

help:
	@sed -n 's/^#: //p' Makefile

#: make             both libraries and the cameo command, in build/
#: make demo        install what building needs, build, show what Cameo does
#: make test        everything that is tested, of what takes long a slice that turns with the day; install what that needs
#: make test-all    everything that is tested, whole
#: make check       what a change may have broken, in minutes: the plain build, its unit tests, conformance, lint
#: make unit        the unit and operator tests alone
#: make examples    the programs of examples/, in build/examples/
#: make fuzz        feed the readers of files with rubbish (FUZZ_SECONDS=300 each)
#: make bench       time Cameo beside ONNX Runtime (BENCH="--threads 1 --names resnet50,bert")
#: make docs        write docs/ops.md, the man page and the completion script anew
#: make lint        check who includes whom, who allocates, headers, formatting
#: make format      lay the code out
#: make install     to PREFIX=/usr/local, below DESTDIR; make uninstall takes it away
#: make dist        a tarball that runs in place, with all libraries it needs, in build/packages/
#: make deb         a Debian package, in build/packages/
#: make clean       remove every build folder
#:
#: Variables: B=build (folder), CC, OPT=-O2, SAN=address,undefined, PREFIX, DESTDIR.

# Kernels are built for the ISA level that their folder names; nothing else is. Sanitizers make large code
# of them, which an optimiser would chew on for minutes. Nothing is called or thrown through them: they need no tables for
# unwinding, which would be a twentieth of the library.
# GCC since 13 makes a copy of a loop for each way a condition in it can go: a fifth more code, of tails.
ONE_LOOP     := $(shell echo __GNUC__ | $(CC) -E -P -x c - 2>/dev/null | awk '$$1 >= 13 { print "-fno-unswitch-loops" }')
KERNEL_OPT   := $(if $(SAN)$(EXTRA_CFLAGS),-O1,-O3) -fno-asynchronous-unwind-tables $(ONE_LOOP) $(KERNEL_FLAGS)
AVX2_FLAGS   := -mavx2 -mfma -mf16c -mbmi2
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 \
                -mprefer-vector-width=512
$(B)/src/cpu/avx2/%.o:   CFLAGS += $(AVX2_FLAGS) $(KERNEL_OPT)
$(B)/src/cpu/avx512/%.o: CFLAGS += $(AVX512_FLAGS) $(KERNEL_OPT)
$(B)/src/cpu/amx/%.o:    CFLAGS += $(AVX512_FLAGS) -mamx-tile -mamx-bf16 -mamx-int8 $(KERNEL_OPT)
$(B)/src/cpu/generic/%.o: CFLAGS += $(KERNEL_OPT)

# What measures a machine's limits keeps its sums in registers.
$(B)/src/cli/limits.o: CFLAGS += -O3

# What runs copies and clears structures all the time: with plain moves, since `rep movs` and `rep stos`, which GCC
# would take, need a hundred cycles to get going.
PLAIN_MOVES := -mmemcpy-strategy=unrolled_loop:1024:noalign,libcall:-1:noalign \
               -mmemset-strategy=unrolled_loop:1024:noalign,libcall:-1:noalign
PLAIN_MOVES := $(shell $(CC) $(PLAIN_MOVES) -E -x c /dev/null >/dev/null 2>&1 && echo "$(PLAIN_MOVES)")
$(foreach r,base plan cpu runtime,$(B)/src/$(r)/%.o): CFLAGS += $(PLAIN_MOVES)

# Weights packed in a plan are used by the kernels that packed them, and by no others.
CPU_FILES := $(sort $(wildcard src/cpu/*.[ch] src/cpu/*/*.[ch]))
$(B)/gen/packing_id.h: $(CPU_FILES)
	@mkdir -p $(@D)
	@cat $^ | sha256sum | sed 's/^\(.\{16\}\).*/#define CM_PACKING_ID UINT64_C(0x\1)/' > $@
$(B)/src/runtime/packed.o $(B)/src/runtime/packed_export.o: $(B)/gen/packing_id.h

# What was built with other flags, or by another compiler, is built again.
FLAGS_NOW := $(strip $(shell $(CC) --version | head -n 1): $(subst $(B)/,,$(CC) $(CPPFLAGS) $(CFLAGS) $(KERNEL_OPT) $(AVX512_FLAGS) $(PLAIN_MOVES)))
ifneq ($(FLAGS_NOW),$(strip $(shell cat $(B)/flags 2>/dev/null)))
.PHONY: $(B)/flags
endif
$(B)/flags: export FLAGS_NOW := $(FLAGS_NOW)
$(B)/flags:
	@mkdir -p $(@D)
	@echo "$$FLAGS_NOW" >$@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Device code is text in the library; NVRTC compiles it where it is needed.
$(B)/gen/kernels.c: tools/embed $(KERNELS)
	@mkdir -p $(@D)
	tools/embed $(KERNELS) >$@.tmp && mv $@.tmp $@
$(B)/gen/kernels.o: $(B)/gen/kernels.c $(B)/flags
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Texts that the command carries, as C strings.
REPORT_TEXTS := $(wildcard src/cli/report/*)
$(B)/gen/cli/report/%.inc: src/cli/report/%
	@mkdir -p $(@D)
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< >$@
$(B)/src/cli/profile_html.o: $(patsubst src/%,$(B)/gen/%.inc,$(REPORT_TEXTS))

$(B)/libcameo.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/libcameo-rt.a: $(RT_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

# -z defs: the runtime's library must not need what only the compiler has.
$(B)/libcameo.so.$(VERSION): $(LIB_OBJ)
$(B)/libcameo-rt.so.$(VERSION): $(RT_OBJ)
$(B)/lib%.so.$(VERSION):
	$(CC) -shared $(LDFLAGS) $(if $(SAN),,-Wl,-z,defs) -Wl,-soname,$(basename $(basename $(@F))) \
	      -o $@ $^ $(LDLIBS)
$(B)/%.so: $(B)/%.so.$(VERSION)
	@ln -sf $(<F) $@.$(SOVERSION)
	@ln -sf $(@F).$(SOVERSION) $@

$(B)/cameo: $(CLI_OBJ) $(B)/libcameo.a
	$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(WHOLE) $(LDLIBS)

# Tests look inside the library. There are so many of them that copies of it would fill a disk (16 GB with the
# sanitizers, whose code is large): sanitised ones share it, the others go without its lines for a debugger
# (TEST_LIBS='$(WHOLE)' keeps those).
TEST_LIB  = $(B)/libcameo.$(if $(SAN),so,a)
TEST_LIBS = $(if $(SAN),-L$(B) -lcameo -Xlinker -rpath -Xlinker $(abspath $(B)),$(WHOLE) -Wl,--strip-debug)
$(B)/tests/%: tests/%.c $(TEST_LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -MMD -MP -o $@ $< $(TEST_LIBS) -lcmocka $(LDFLAGS) $(LDLIBS)

# A driver without a GPU, and the compiler library whose kernels it can run.
FAKE_NONE := $(B)/tests/fake/libcublasLt.so.13 $(B)/tests/fake/libcudnn.so.9
# Libraries in parts, for tests of how they are opened: each knows its own name and, like NVIDIA's, not where its parts are.
FAKE_PARTS := $(addprefix $(B)/tests/fake/parts/,libnvrtc.so.13 libnvrtc-builtins.so.13.97 libcudnn_graph.so.9 libcudnn_ops.so.9 \
              libcudnn.so.9)
FAKE_CUDA := $(B)/tests/fake/libcuda.so.1 $(B)/tests/fake/ptx/libnvrtc.so.13 $(FAKE_NONE) $(FAKE_PARTS)
$(B)/tests/fake/libcuda.so.1: tests/fake/libcuda.c tests/fake/kernels.c $(wildcard tests/fake/*.h) src/cuda/driver.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DFAKE_SOURCES='"$(abspath tests/fake)"' -shared -o $@ $(filter %.c,$^) $(LDFLAGS) -ldl -pthread
# The real ones would call the driver for what it does not have: these have nothing to call.
$(FAKE_NONE):
	@mkdir -p $(@D)
	$(CC) -shared -o $@ -x c /dev/null
$(B)/tests/fake/parts/libcudnn_ops.so.9: $(B)/tests/fake/parts/libcudnn_graph.so.9
$(FAKE_PARTS):
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,$(@F),--no-as-needed -o $@ -x c /dev/null -x none $^
$(B)/tests/fake/ptx/libnvrtc.so.13: tests/fake/libnvrtc.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -shared -o $@ $< $(LDFLAGS) -ldl

# AMX without AMX (tests/fake/README.md): what uses tiles is built for those of tests/fake/tiles.h, and the CPU says that it
# has them. The tests of tactics that have a row for them, and the command.
TILES       := $(B)/tests/fake/tiles
TILE_SRC    := $(wildcard src/cpu/amx/*.c) src/cli/limits.c
TILE_OBJ    := $(patsubst %.c,$(TILES)/%.o,$(TILE_SRC)) $(TILES)/tiles.o
TILE_TESTS  := fake/tiles_test unit/gemm_bf16 op/attention op/conv op/matmul
TILE_BIN    := $(addprefix $(TILES)/tests/,$(TILE_TESTS)) $(TILES)/cameo
TILE_PLAIN  = $(filter-out $(call obj,$(TILE_SRC)),$(1))
$(TILES)/%.o: CFLAGS += $(AVX512_FLAGS) $(KERNEL_OPT) -Itests/fake
$(TILES)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -include tests/fake/tiles.h -MMD -MP -c -o $@ $<
$(TILES)/tiles.o: tests/fake/tiles.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(TILES)/tests/%: tests/%.c $(LIB_OBJ) $(TILE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -Itests/fake -MMD -MP -o $@ $< $(call TILE_PLAIN,$(LIB_OBJ)) \
	      $(filter-out %/limits.o,$(TILE_OBJ)) -Wl,--wrap=cm_cpu_info,--strip-debug -lcmocka $(LDFLAGS) $(LDLIBS)
$(TILES)/cameo: $(CLI_OBJ) $(LIB_OBJ) $(TILE_OBJ)
	$(CC) $(LDFLAGS) -o $@ $(call TILE_PLAIN,$(CLI_OBJ) $(LIB_OBJ)) $(TILE_OBJ) -Wl,--wrap=cm_cpu_info,--strip-debug $(LDLIBS)

unit: $(B)/cameo $(UNIT_BIN) $(FAKE_CUDA)
	@PARTS=unit tests/run $(B)

# The programs of examples/, against the shared libraries as a user would link them. Those that only run
# plans take libcameo-rt. C++ is skipped where there is no compiler for it.
CXX      ?= g++
EXAMPLES := digits resnet50 dynamic fused_norm.so $(if $(shell command -v $(CXX) 2>/dev/null),quick)
EX_FLAGS = -Wall -Wextra $(OPT) -g -Iinclude $(SANFLAGS) -Xlinker -rpath -Xlinker $(abspath $(B)) -L$(B)
.PHONY: examples demo docs
examples: $(addprefix $(B)/examples/,$(EXAMPLES))
$(B)/examples/digits: examples/digits/digits.c $(B)/libcameo-rt.so include/cameo.h
	@mkdir -p $(@D)
	$(CC) -std=c11 $(EX_FLAGS) -o $@ $< -lcameo-rt
$(B)/examples/quick: examples/cpp/quick.cpp $(B)/libcameo.so include/cameo.h
	@mkdir -p $(@D)
	$(CXX) -std=c++11 $(EX_FLAGS) -o $@ $< -lcameo
$(B)/examples/fused_norm.so: examples/plugin/fused_norm.c include/cameo.h include/cameo_plugin.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -Wall -Wextra $(OPT) -g -Iinclude $(SANFLAGS) -fPIC -shared -o $@ $< -lm
$(B)/examples/%: examples/*/%.c $(B)/libcameo.so include/cameo.h
	@mkdir -p $(@D)
	$(CC) -std=c11 $(EX_FLAGS) -o $@ $< -lcameo

demo:
	@tools/setup build
	@echo "building (a minute or two on two cores the first time)"
	@$(QUIET_MAKE) all examples
	@examples/demo $(B)

docs: $(B)/cameo
	@mkdir -p share/man/man1 share/bash-completion
	$(B)/cameo documents ops >docs/ops.md
	$(B)/cameo documents passes >docs/passes.md
	$(B)/cameo documents man >share/man/man1/cameo.1
	$(B)/cameo documents completion >share/bash-completion/cameo
	$(B)/cameo documents commands >docs/commands.md
	sed '/^## Flags that do something/,$$d' docs/trtexec.md >$(B)/trtexec.md
	$(B)/cameo documents trtexec >>$(B)/trtexec.md
	mv $(B)/trtexec.md docs/trtexec.md

# bench/README.md has the options that BENCH may hold.
PYTHON ?= .venv/bin/python
.PHONY: bench
bench:
	@tools/setup bench
	@$(QUIET_MAKE) $(B)/libcameo.so $(B)/cameo $(B)/bench/limits $(B)/bench/side
	@$(PYTHON) bench/run.py --build $(B) $(BENCH)
$(B)/bench/limits: bench/limits.c $(B)/src/cli/limits.o
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) -O2 -Isrc -pthread -o $@ $^
# Those of bench/gpu look inside.
$(B)/bench/gpu/%: bench/gpu/%.c $(B)/libcameo.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(WHOLE) $(LDFLAGS) $(LDLIBS)
$(B)/bench/%: bench/%.c $(B)/libcameo.so include/cameo.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) -O2 -Iinclude -pthread -o $@ $< -L$(B) -Xlinker -rpath -Xlinker $(abspath $(B)) \
	      -Wl,--as-needed -lcameo -ldl -lm

# libFuzzer: each of tests/fuzz runs FUZZ_SECONDS from its seeds; findings are left in build-fuzz/found. Kernels go without the
# checks for undefined behaviour, over which clang takes minutes: SAN=address,undefined has them.
FUZZ_SECONDS ?= 300
FUZZ_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*.c))
FUZZ_MAKE = $(MAKE) --no-print-directory B=build-fuzz CC=clang OPT=-O1 \
            EXTRA_CFLAGS="-DCM_FUZZ_NO_CHECKSUM -fsanitize=fuzzer-no-link,address,undefined \
            -fno-sanitize-recover=all" KERNEL_FLAGS=-fno-sanitize=undefined
.PHONY: fuzz fuzzers
fuzzers: $(FUZZ_BIN)
$(B)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/fuzz.h $(B)/libcameo.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(WHOLE) $(LDLIBS)
fuzz: $(B)/cameo
	@$(FUZZ_MAKE) fuzzers
	@tests/fuzz/run build-fuzz $(B)/cameo $(FUZZ_SECONDS)

# What tests need built: all of it, once plain and once with the sanitizers; the threads test with TSan.
.PHONY: tests threads-test
tests: all $(UNIT_BIN) $(FAKE_CUDA) $(if $(SAN),,$(TILE_BIN))
threads-test: $(B)/tests/fault/threads

.PHONY: check test-all
test:
	@tools/setup test
	@echo "building: plain, with the sanitizers, with the fuzzer"
	@$(QUIET_MAKE) tests examples
	@$(QUIET_MAKE) tests SAN=address,undefined OPT=-O1
	@$(QUIET_MAKE) threads-test SAN=thread OPT=-O1
	@$(FUZZ_MAKE) $(JOBS) -s fuzzers
	@tests/run $(B)
test-all:
	@CAMEO_TEST_TURN=all $(MAKE) --no-print-directory test
check:
	@tools/setup test
	@$(QUIET_MAKE) tests examples
	@PARTS="$(or $(PARTS),lint unit conformance models)" tests/run $(B)

lint:
	@mkdir -p build
	@tools/lint $(CC)

format:
	$(firstword $(wildcard .venv/bin/clang-format) clang-format) -i $$(git ls-files 'src/*.c' 'src/*.h' 'tests/*.c' 'tests/*.h' 'examples/*.c')

clean:
	rm -rf build build-*

# Every file that install writes, below DESTDIR PREFIX; uninstall removes the same.
LIBDIR ?= $(PREFIX)/lib
DEST   = $(DESTDIR)$(PREFIX)
DESTLIB = $(DESTDIR)$(LIBDIR)
DOCS   := README.md LICENSE CHANGELOG.md
.PHONY: install uninstall
install: all
	install -d $(DEST)/bin $(DEST)/include $(DESTLIB)/pkgconfig $(DEST)/share/man/man1 \
	        $(DEST)/share/bash-completion/completions $(DEST)/share/doc/cameo
	install -m 755 $(B)/cameo $(DEST)/bin/
	install -m 644 include/cameo.h include/cameo_plugin.h $(DEST)/include/
	for l in cameo cameo-rt; do \
	    install -m 644 $(B)/lib$$l.a $(B)/lib$$l.so.$(VERSION) $(DESTLIB)/ && \
	    ln -sf lib$$l.so.$(VERSION) $(DESTLIB)/lib$$l.so.$(SOVERSION) && \
	    ln -sf lib$$l.so.$(SOVERSION) $(DESTLIB)/lib$$l.so && \
	    sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LDLIBS)|' \
	        share/pkgconfig/$$l.pc.in >$(DESTLIB)/pkgconfig/$$l.pc || exit 1; done
	install -m 644 share/man/man1/cameo.1 $(DEST)/share/man/man1/
	install -m 644 share/bash-completion/cameo $(DEST)/share/bash-completion/completions/
	install -m 644 $(DOCS) $(DEST)/share/doc/cameo/

uninstall:
	rm -f $(DEST)/bin/cameo $(DEST)/include/cameo.h $(DEST)/include/cameo_plugin.h $(DEST)/share/man/man1/cameo.1 \
	      $(DEST)/share/bash-completion/completions/cameo $(addprefix $(DEST)/share/doc/cameo/,$(DOCS)) \
	      $(foreach l,cameo cameo-rt,$(DESTLIB)/lib$(l).a $(DESTLIB)/lib$(l).so $(DESTLIB)/lib$(l).so.$(SOVERSION) \
	      $(DESTLIB)/lib$(l).so.$(VERSION) $(DESTLIB)/pkgconfig/$(l).pc)
	-rmdir $(DEST)/share/doc/cameo

# Packages. What the tarball holds finds its libraries beside itself.
.PHONY: dist deb
dist: all $(B)/dist/cameo $(foreach l,cameo cameo-rt,$(B)/dist/lib$(l).so.$(VERSION))
	@tools/package dist $(B) $(VERSION)
deb: all
	@tools/package deb $(B) $(VERSION)
$(B)/dist/cameo: $(CLI_OBJ) $(B)/libcameo.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $(CLI_OBJ) $(WHOLE) $(LDLIBS)
$(B)/dist/libcameo.so.$(VERSION): $(LIB_OBJ)
$(B)/dist/libcameo-rt.so.$(VERSION): $(RT_OBJ)
$(B)/dist/lib%.so.$(VERSION):
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -Wl,-z,defs -Wl,-rpath,'$$ORIGIN' -Wl,-soname,lib$*.so.$(SOVERSION) -o $@ $^ $(LDLIBS)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TILE_OBJ:.o=.d) $(addsuffix .d,$(UNIT_BIN) $(TILE_BIN))
