/* The program needs more than its budget for the first time while it loads a library and holds the loader's locks:
   the resolver of a function of that library allocates, and takes its time. */
#include "memory.h"

#include <dlfcn.h>

static const char LIBRARY[] =
    "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "static int answer(void) { return 42; }\n"
    "static int (*resolve(void))(void) {\n"
    "    for (int turn = 0; turn < 150; turn++) {\n"
    "        char *block = malloc(1 << 18);\n"
    "        if (!block) abort();\n"
    "        memset(block, turn, 1 << 18);\n"
    "        usleep(10 * 1000);\n"
    "    }\n"
    "    return answer;\n"
    "}\n"
    "static int resolved(void) __attribute__((ifunc(\"resolve\")));\n"
    "int (*pointer)(void) = resolved;\n";

enum { PAGES = 8000 };

int main(void) {
    end_if_it_hangs();
    char folder[] = "/tmp/warmswap-loader-XXXXXX";
    CHECK(mkdtemp(folder));
    char source[64], library[64], command[256];
    snprintf(source, sizeof source, "%s/resolver.c", folder);
    snprintf(library, sizeof library, "%s/resolver.so", folder);
    FILE *file = fopen(source, "w");
    CHECK(file && fputs(LIBRARY, file) >= 0 && fclose(file) == 0);
    snprintf(command, sizeof command, "env -u LD_PRELOAD -u WARMSWAP_RUN cc -shared -fPIC -O1 -o %s %s", library, source);
    CHECK(system(command) == 0);

    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) fprintf(stderr, "%s\n", dlerror());
    CHECK(handle);
    int (**pointer)(void) = (int (**)(void))dlsym(handle, "pointer");
    CHECK(pointer && (*pointer)() == 42);

    unlink(source);
    unlink(library);
    rmdir(folder);
    /* Something to page, and time for it: the memory is only ours from about here on. */
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (int rounds = getenv("WARMSWAP_RUN") ? 10 : 1; rounds > 0;) {
        rounds -= is_down_to(memory, PAGES, PAGES - 1);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
        usleep(10 * 1000);
    }
    return 0;
}
