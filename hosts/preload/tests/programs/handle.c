/* Functions of the C library that are looked up by a handle, on memory that is paged and on blocks of the other allocator. */
#include "memory.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>

enum { PAGES = 12000 };

#ifdef __x86_64__
#define VERSION "GLIBC_2.2.5"
#else
#define VERSION "GLIBC_2.17"
#endif

static void *libc;

static void *by_handle(const char *name) {
    void *function = dlsym(libc, name);
    CHECK(function != NULL);
    return function;
}

static void blocks(void) {
    void *(*allocate)(size_t) = by_handle("malloc");
    void *(*zeroed)(size_t, size_t) = by_handle("calloc");
    void *(*resize)(void *, size_t) = by_handle("realloc");
    void (*release)(void *) = by_handle("free");
    int (*aligned)(void **, size_t, size_t) = by_handle("posix_memalign");
    size_t (*usable)(void *) = by_handle("malloc_usable_size");
    void *place;
    release(strdup("hello"));
    free(allocate(100));
    free(zeroed(10, 10));
    free(resize(malloc(10), 1000));
    CHECK(aligned(&place, 64, 100) == 0);
    CHECK(usable(place) >= 100 && malloc_usable_size(place) >= 100);
    free(realloc(place, 300000));
    void (*of_version)(void *) = dlvsym(libc, "free", "GLIBC_2.2.5");
    if (of_version) of_version(malloc(10));
    void *places[] = {RTLD_DEFAULT, RTLD_NEXT};
    for (int i = 0; i < 2; i++) {
        of_version = dlvsym(places[i], "free", VERSION);
        CHECK(of_version != NULL);
        of_version(strdup("hello"));
        void *(*resize_of_version)(void *, size_t) = dlvsym(places[i], "realloc", VERSION);
        free(resize_of_version(malloc(10), 1000));
        CHECK(dlvsym(places[i], "puts", VERSION) != NULL && dlvsym(places[i], "free", "NONE_1") == NULL);
    }
    CHECK(dlsym(libc, "free") == (void *)free && dlsym(RTLD_DEFAULT, "free") == (void *)free);
    CHECK(dlsym(libc, "there is no such function") == NULL && dlerror() != NULL);
    CHECK(dlsym(libc, "puts") == (void *)puts);
    void *math = dlopen("libm.so.6", RTLD_LAZY);
    CHECK(math != NULL && dlsym(math, "cos") != NULL);
}

/* A library that is loaded behind the others gets blocks of the next allocator, and passes them on. */
static const char library_source[] =
    "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n"
    "void *next_block(size_t size) {\n"
    "    void *(*next)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, \"malloc\");\n"
    "    void *block = next(size);\n    return block;\n}\n";

static void *use_foreign_blocks(void *unused) {
    (void)unused;
    void *(*next_block)(size_t) = dlsym(RTLD_DEFAULT, "next_block");
    CHECK(next_block != NULL);
    for (size_t size = 1; size < 4u << 20; size = size * 3 + 1) {
        char *block = next_block(size);
        CHECK(block != NULL);
        memset(block, 7, size);
        CHECK(malloc_usable_size(block) >= size);
        block = realloc(block, size + 100);
        CHECK(block[0] == 7 && block[size - 1] == 7);
        free(block);
        free(malloc(size));
    }
    return NULL;
}

/* Also where the program asks the C library for mappings, and for a heap for each of its threads. */
static void use_foreign_blocks_of_threads(void) {
    CHECK(mallopt(M_MMAP_MAX, 65536) == 1 && mallopt(M_MMAP_THRESHOLD, 128 << 10) == 1 && mallopt(M_ARENA_MAX, 4) == 1);
    use_foreign_blocks(NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(threads + i, NULL, use_foreign_blocks, NULL) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A library that stands before what tells of loaded objects, as tools do that trace programs or change their view of files. */
static const char hooks_source[] =
    "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <link.h>\n#include <string.h>\n"
    "int hooked;\n"
    "int dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data) {\n"
    "    int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = dlsym(RTLD_NEXT, \"dl_iterate_phdr\");\n"
    "    return next(look, data);\n}\n"
    "int dladdr(const void *address, Dl_info *info) {\n"
    "    int (*next)(const void *, Dl_info *) = dlsym(RTLD_NEXT, \"dladdr\");\n"
    "    return next(address, info);\n}\n"
    "void *dlsym(void *handle, const char *name) {\n"
    "    static void *(*next)(void *, const char *);\n"
    "    if (!next) next = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");\n"
    "    if (!strcmp(name, \"cos\")) hooked++;\n"
    "    return next(handle, name);\n}\n";

static void use_hooks(void) {
    int *hooked = dlsym(RTLD_DEFAULT, "hooked");
    CHECK(hooked != NULL && *hooked == 0);
    dlsym(RTLD_DEFAULT, "cos");
    CHECK(*hooked == 1);
    Dl_info info;
    CHECK(dladdr((void *)use_hooks, &info) != 0);
    CHECK(prctl(PR_GET_DUMPABLE) >= 0);
    free(realloc(malloc(10), 1000));
}

/* Runs this program with a library that is made of a source, before this process's own preloaded ones or behind them. */
static void run_with(const char *source, int is_first, const char *program, const char *argument) {
    char folder[] = "/tmp/warmswap-handle-XXXXXX", path[128], command[640];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/made.c", folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(source, file) >= 0 && fclose(file) == 0);
    const char *preload = getenv("LD_PRELOAD");
    char made[160];
    snprintf(made, sizeof made, "%s/made.so", folder);
    snprintf(command, sizeof command,
             "cd %s && (unset LD_PRELOAD && cc -shared -fPIC -O1 -o made.so made.c -ldl) && "
             "LD_PRELOAD=%s:%s '%s' %s && rm -r %s",
             folder, is_first ? made : preload ? preload : "", is_first ? preload ? preload : "" : made, program, argument,
             folder);
    CHECK(system(command) == 0);
}

static void pages(void) {
    void *(*map)(void *, size_t, int, int, int, off_t) = by_handle("mmap");
    int (*unmap)(void *, size_t) = by_handle("munmap");
    int (*advise)(void *, size_t, int) = by_handle("madvise");
    int (*protect)(void *, size_t, int) = by_handle("mprotect");
    void *(*move)(void *, size_t, size_t, int, ...) = by_handle("mremap");
    pid_t (*make_child)(void) = by_handle("fork");
    int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uint64_t *memory = map(NULL, PAGES * PAGE, access, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 5);
    wait_until_paged(memory, PAGES);

    CHECK(protect(memory, PAGES * PAGE, PROT_READ) == 0);
    CHECK(protect(memory, PAGES * PAGE, access) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 5));
    pid_t child = make_child();
    CHECK(child >= 0);
    if (child == 0) {
        for (uint64_t page = 0; page < PAGES; page += 7) CHECK(holds(memory, page, 5));
        _exit(0);
    }
    join_child(child);
    memory = move(memory, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 5));
    for (uint64_t page = PAGES; page < 2 * PAGES; page++) CHECK(is_zero(memory, page));
    CHECK(advise(memory, PAGES / 2 * PAGE, MADV_DONTNEED) == 0);
    for (uint64_t page = 0; page < PAGES / 2; page++) CHECK(is_zero(memory, page));
    for (uint64_t page = PAGES / 2; page < PAGES; page++) CHECK(holds(memory, page, 5));
    CHECK(map(memory, PAGES * PAGE, access, flags | MAP_FIXED, -1, 0) == memory);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(is_zero(memory, page));
    CHECK(unmap(memory, 2 * PAGES * PAGE) == 0);
    CHECK(map(memory, PAGES * PAGE, access, flags | MAP_FIXED_NOREPLACE, -1, 0) == memory);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(is_zero(memory, page));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        end_if_it_hangs();
        if (!strcmp(argv[1], "foreign")) use_foreign_blocks(NULL);
        if (!strcmp(argv[1], "threads")) use_foreign_blocks_of_threads();
        if (!strcmp(argv[1], "hooks")) use_hooks();
        return 0;
    }
    libc = dlopen("libc.so.6", RTLD_LAZY);
    CHECK(libc != NULL);
    blocks();
    run_with(library_source, 0, argv[0], "foreign");
    run_with(library_source, 0, argv[0], "threads");
    run_with(hooks_source, 1, argv[0], "hooks");
    pages();
    return 0;
}
