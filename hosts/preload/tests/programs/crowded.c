/* A program that can have no more threads. Its first line of input is a control group with a limit of processes, which it
   enters; with `forks` behind it, only when it is paged, and then it forks: there is room for the child alone, until the
   group's owner makes more. */
#include "memory.h"

enum { PAGES = 12000 };

static void write_to(const char *folder, const char *file, long number) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "w");
    CHECK(stream != NULL);
    CHECK(fprintf(stream, "%ld\n", number) > 0 && fclose(stream) == 0);
}

static long tasks(const char *folder) {
    char path[512];
    long count;
    snprintf(path, sizeof path, "%s/pids.current", folder);
    FILE *stream = fopen(path, "r");
    CHECK(stream != NULL);
    CHECK(fscanf(stream, "%ld", &count) == 1 && fclose(stream) == 0);
    return count;
}

int main(void) {
    end_if_it_hangs();
    char folder[256], what[16];
    CHECK(scanf("%255s %15s", folder, what) == 2);
    int forks = strcmp(what, "forks") == 0;
    if (!forks) {
        write_to(folder, "pids.max", 2);
        write_to(folder, "cgroup.procs", getpid());
    }
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    if (forks) {
        wait_until_paged(memory, PAGES);
        write_to(folder, "cgroup.procs", getpid());
        write_to(folder, "pids.max", tasks(folder) + 1);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    } else {
        give_time_to_page(memory, PAGES);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
