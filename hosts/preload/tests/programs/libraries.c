/* Libraries with thread-local variables, more than the C library's table for them has room for at first: it calls malloc
   while the table is made larger, in each thread that uses one of them. */
#include "memory.h"
#include <dlfcn.h>
#include <pthread.h>

enum { PAGES = 12000, LIBRARIES = 40, THREADS = 4 };

static int *(*touch[LIBRARIES])(void);

static void *touches(void *unused) {
    for (int i = 0; i < LIBRARIES; i++) {
        int *variable = touch[i]();
        CHECK(*variable == 0);
        *variable = i;
        free(malloc(100));
    }
    for (int i = 0; i < LIBRARIES; i++) CHECK(*touch[i]() == i);
    return unused;
}

int main(void) {
    char folder[] = "/tmp/warmswap-libraries-XXXXXX", command[1024];
    CHECK(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cd %s && unset LD_PRELOAD && echo '__thread int x[4]; int *touch(void) { return x; }' > l.c"
             " && cc -shared -fPIC -O0 -o l0.so l.c && for i in $(seq 1 %d); do cp l0.so l$i.so; done",
             folder, LIBRARIES - 1);
    CHECK(system(command) == 0);

    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    for (int i = 0; i < LIBRARIES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/l%d.so", folder, i);
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library);
        touch[i] = (int *(*)(void))dlsym(library, "touch");
        CHECK(touch[i]);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, touches, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    touches(NULL);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return 0;
}
