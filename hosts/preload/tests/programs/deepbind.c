/* Plugins that are loaded with RTLD_DEEPBIND, as by web servers: blocks go to and fro, and they discard the program's memory.
   They are found where the library that loads them says (RUNPATH), and nowhere else. */
#include "memory.h"
#include <dlfcn.h>

enum { PAGES = 12000, PART = 1000, BLOCKS = 100 };

static const char plugin_source[] =
    "#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n"
    "char *copy(const char *text) { return strcpy(malloc(strlen(text) + 1), text); }\n"
    "void release(void *block) { free(block); }\n"
    "int discard(void *memory, size_t bytes) { return madvise(memory, bytes, MADV_DONTNEED); }\n"
    "int unmap(void *memory, size_t bytes) { return munmap(memory, bytes); }\n";
static const char loader_source[] =
    "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
    "void *load(const char *name) { void *l = dlopen(name, RTLD_NOW | RTLD_DEEPBIND); return l; }\n"
    "void *load_in(const char *name) { void *l = dlmopen(LM_ID_BASE, name, RTLD_NOW | RTLD_DEEPBIND); return l; }\n";

static char folder[] = "/tmp/warmswap-deepbind-XXXXXX";

static void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void use(void *plugin, uint64_t *memory) {
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(plugin, "copy");
    void (*release)(void *) = (void (*)(void *))dlsym(plugin, "release");
    int (*discard)(void *, size_t) = (int (*)(void *, size_t))dlsym(plugin, "discard");
    CHECK(copy && release && discard);
    for (int block = 0; block < BLOCKS; block++) {
        char *of_plugin = copy("of the plugin"), *own = strdup("of the program");
        CHECK(strcmp(of_plugin, "of the plugin") == 0);
        free(of_plugin);
        release(own);
    }
    CHECK(discard(memory, PART * PAGE) == 0);
    for (uint64_t page = 0; page < PART; page++) CHECK(is_zero(memory, page));
    for (uint64_t page = 0; page < PART; page++) fill(memory, page, 2);
}

int main(void) {
    char command[1024], path[128];
    CHECK(mkdtemp(folder));
    write_file("plugin.c", plugin_source);
    write_file("loader.c", loader_source);
    snprintf(command, sizeof command,
             "cd %s && unset LD_PRELOAD && mkdir in && for i in 0 1; do cc -shared -fPIC -o in/plugin$i.so plugin.c; done"
             " && cc -shared -fPIC -O1 -o loader.so loader.c -Wl,--enable-new-dtags,-rpath,'$ORIGIN/in' -ldl",
             folder);
    CHECK(system(command) == 0);

    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    CHECK(!dlopen("plugin0.so", RTLD_NOW) && !dlopen("plugin0.so", RTLD_NOW | RTLD_DEEPBIND));
    snprintf(path, sizeof path, "%s/loader.so", folder);
    void *loader = dlopen(path, RTLD_NOW);
    CHECK(loader);
    const char *const ways[] = {"load", "load_in"};
    for (int way = 0; way < 2; way++) {
        void *(*load)(const char *) = (void *(*)(const char *))dlsym(loader, ways[way]);
        CHECK(load);
        char name[32];
        snprintf(name, sizeof name, "plugin%d.so", way);
        void *plugin = load(name);
        CHECK(plugin);
        use(plugin, memory);
        int (*unmap)(void *, size_t) = (int (*)(void *, size_t))dlsym(plugin, "unmap");
        uint64_t *other = map_pages(PART);
        for (uint64_t page = 0; page < PART; page++) fill(other, page, 3);
        CHECK(unmap && unmap(other, PART * PAGE) == 0);
    }
    for (uint64_t page = 0; page < PART; page++) CHECK(holds(memory, page, 2));
    for (uint64_t page = PART; page < PAGES; page++) CHECK(holds(memory, page, 1));
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return 0;
}
