/* A library with the mark of Go's linker. A process that loads it before it is paged runs unpaged, and says so; in one that
   is paged by then, what the library reserves as Go does for its heap is the kernel's. */
#include "memory.h"
#include "go.h"
#include <dlfcn.h>

enum { PAGES = 12000, PART = 2000 };

static char folder[] = "/tmp/warmswap-go-XXXXXX";

static void *load(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    return library;
}

static void unpaged(void) {
    uint64_t *memory = map_pages(PAGES);
    load("go.so");
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    give_time_to_page(memory, PAGES);
    discard_by_itself(memory, PART);
    for (uint64_t page = PART; page < PAGES; page++) CHECK(holds(memory, page, 1));
}

int main(void) {
    end_if_it_hangs();
    char command[1024];
    CHECK(mkdtemp(folder));
    snprintf(command, sizeof command, "%s/go.s", folder);
    FILE *source = fopen(command, "w");
    CHECK(source && fputs(GO_MARK "\n.section .note.GNU-stack, \"\", %progbits\n", source) >= 0 && fclose(source) == 0);
    snprintf(command, sizeof command,
             "cd %s && unset LD_PRELOAD && echo 'int other;' > other.c"
             " && cc -shared -o go.so go.s && cc -shared -fPIC -o other.so other.c",
             folder);
    CHECK(system(command) == 0);

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unpaged();
        exit(0);
    }
    join_child(child);

    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    load("other.so");
    load("go.so");
    void *hint = (void *)0xc000000000;
    void *heap = mmap(hint, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != MAP_FAILED);
    CHECK(mmap(heap, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == heap);
    for (uint64_t page = 0; page < PAGES; page++) fill(heap, page, 1);
    give_time_to_page(heap, PAGES);
    discard_by_itself(heap, PART);
    for (uint64_t page = PART; page < PAGES; page++) CHECK(holds(heap, page, 1));
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return 0;
}
