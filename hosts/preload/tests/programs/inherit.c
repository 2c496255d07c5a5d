/* A thread that is bound to one processor, in the class that runs last, crosses the budget. The library's threads must not
   take after it: they serve all others. */
#include "memory.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>

enum { PAGES = 10000 };

static uint64_t *memory;

static void *crosses(void *argument) {
    cpu_set_t *all = argument, one;
    int first = 0;
    while (!CPU_ISSET(first, all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    struct sched_param none = {0};
    CHECK(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    return NULL;
}

int main(void) {
    cpu_set_t all, own;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    memory = map_pages(PAGES);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, crosses, &all) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    wait_until_paged(memory, PAGES);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));

    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    int keepers = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[64], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        CHECK(fgets(name, sizeof name, file));
        fclose(file);
        if (strcmp(name, "warmswap keeper\n") != 0) continue;
        pid_t number = atoi(task->d_name);
        keepers++;
        CHECK(sched_getaffinity(number, sizeof own, &own) == 0);
        CHECK(CPU_COUNT(&own) == CPU_COUNT(&all));
        /* Without rights no thread leaves that class. */
        CHECK(geteuid() != 0 || sched_getscheduler(number) == SCHED_OTHER);
    }
    CHECK(closedir(tasks) == 0);
    CHECK(keepers == 1);
    return 0;
}
